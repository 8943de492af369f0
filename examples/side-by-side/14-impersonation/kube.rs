// Prints whether a user may delete pods, by asking as that user.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client, Config};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut config = Config::infer().await?;
    config.auth_info.impersonate = Some("jane".into());
    config.auth_info.impersonate_groups = Some(vec!["developers".into()]);
    let client = Client::try_from(config)?;
    let delete_pods = ResourceAttributes {
        namespace: Some("default".into()),
        verb: Some("delete".into()),
        resource: Some("pods".into()),
        ..Default::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(delete_pods),
            ..Default::default()
        },
        ..Default::default()
    };
    let answer = Api::all(client).create(&PostParams::default(), &review).await?;
    println!("allowed: {}", answer.status.is_some_and(|status| status.allowed));
    Ok(())
}
