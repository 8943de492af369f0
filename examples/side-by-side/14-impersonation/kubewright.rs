// Prints whether a user may delete pods, by asking as that user.

use kubewright::Client;
use kubewright::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kubewright::client::rest::Impersonation;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let jane = Impersonation::user("jane").group("developers");
    let client = Client::try_default().await?.impersonate(jane);
    let delete_pods = ResourceAttributes {
        namespace: Some("default".into()),
        verb: Some("delete".into()),
        resource: Some("pods".into()),
        ..Default::default()
    };
    let mut review = SelfSubjectAccessReview::default();
    review.spec.resource_attributes = Some(delete_pods.into());
    let answer = client.authorization_v1().self_subject_access_reviews().create(&review).await?;
    println!("allowed: {}", answer.status.is_some_and(|status| status.allowed));
    Ok(())
}
