//! Tokens in secrets of service accounts.

use kubewright_api::authentication::v1::TokenReview;
use kubewright_api::core::v1::{Secret, ServiceAccount};
use kubewright_client::Api;
use kubewright_core::{Decoder, Object};

use crate::support::Cluster;

fn secret(name: &str, account: &str) -> Secret {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","annotations":{{"kubernetes.io/service-account.name":"{account}"}}}},
            "type":"kubernetes.io/service-account-token"}}"#
    );
    Decoder::new().json(text.as_bytes()).unwrap()
}

fn account(name: &str) -> ServiceAccount {
    Decoder::new().json(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).as_bytes()).unwrap()
}

fn token(secret: &Secret) -> Option<String> {
    secret.data.get("token").map(|token| String::from_utf8_lossy(token).into_owned())
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_is_filled_and_goes_with_its_account() {
    let cluster = Cluster::with_nodes(0).await;
    let robot = cluster.create(&account("robot")).await;
    cluster.create(&secret("robot-token", "robot")).await;
    let filled = cluster.until::<Secret>("robot-token", |secret| token(secret).is_some()).await;
    assert_eq!(filled.annotations().get("kubernetes.io/service-account.uid"), Some(robot.uid()));
    assert_eq!(filled.data.get("namespace").map(|data| data.to_vec()), Some(b"default".to_vec()));

    let review = format!(r#"{{"spec":{{"token":"{}"}}}}"#, token(&filled).unwrap());
    let review: TokenReview = Decoder::new().json(review.as_bytes()).unwrap();
    let reviewed = Api::<TokenReview>::all(&cluster.client).create(&review).await.unwrap();
    let user = reviewed.status.unwrap().user.clone().unwrap();
    assert_eq!(user.username.as_deref(), Some("system:serviceaccount:default:robot"));

    cluster.api::<ServiceAccount>().delete("robot").await.unwrap();
    cluster.until_gone::<Secret>("robot-token").await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_a_missing_account_or_of_another_uid_is_deleted() {
    let cluster = Cluster::with_nodes(0).await;
    cluster.create(&secret("nobody-token", "nobody")).await;
    cluster.until_gone::<Secret>("nobody-token").await;
    cluster.create(&account("robot")).await;
    let mut former = secret("former-token", "robot");
    former.metadata.annotations.insert("kubernetes.io/service-account.uid", "1".into());
    cluster.create(&former).await;
    cluster.until_gone::<Secret>("former-token").await;
    // Other secrets of this name are not touched.
    let mut opaque = secret("opaque", "nobody");
    opaque.type_ = Some("Opaque".into());
    cluster.create(&opaque).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(token(&cluster.get::<Secret>("opaque").await).is_none());
    cluster.stop().await;
}
