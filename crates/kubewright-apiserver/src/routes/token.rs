//! The token subresource of service accounts.

use hyper::StatusCode;
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::options::CreateOptions;
use kubewright_core::{GroupKind, Str, Value};
use kubewright_net::clock;

use super::ResourceRequest;
use crate::admission::control::Operation;
use crate::http::ApiResponse;
use kubewright_auth::authentication::{BoundObject, TokenClaims};
use kubewright_objects::encoding::{self, Wanted};
use kubewright_objects::object::{Meta, texts, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::accept::Offer;
use kubewright_resources::catalog::Subresource;
use kubewright_resources::decoding::ExpectedType;

const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

impl ResourceRequest<'_, '_> {
    /// Issues a token for the service account.
    pub(super) async fn issue_token(&mut self, subresource: &Subresource) -> Result<ApiResponse, Rejection> {
        let wanted = Wanted::negotiate(self.call.headers, self.call.query, Offer::Plain)?;
        let options = CreateOptions::from_query(self.call.query)?;
        let sent = self.decode(ExpectedType::from(subresource), options.field_validation)?;
        let admit = |_| {
            let mut request = sent.clone();
            self.admit(Operation::Create, &mut request, None, options.dry_run).map(|()| request)
        };
        let mut request = self.control.run_write(admit).await?;
        let account = self.find()?;
        let (namespace, name) = (&self.target.namespace, &self.target.name);
        if !matches!(request.name(), "") && request.name() != name.as_str() {
            return Err(Status::bad_request("the name of the object does not match the name on the URL").into());
        }
        let seconds = tree::int(&request, &["spec", "expirationSeconds"]).unwrap_or(DEFAULT_SECONDS);
        check_seconds(seconds)?;
        let mut audiences = texts(tree::get(&request, &["spec", "audiences"]));
        if audiences.is_empty() {
            audiences.extend_from_slice(self.call.authenticator.accounts.api_audiences());
        }
        let bound = self.bound_objects(&request)?;
        let grant = TokenClaims { account: &account.tree(), audiences: &audiences, seconds, bound };
        let issued = self.call.authenticator.accounts.issue(&grant);
        let (token, expires) = issued.map_err(|error| Status::internal(error.to_string()))?;
        for (field, value) in [
            ("name", name.as_str()),
            ("namespace", namespace.as_str()),
            ("creationTimestamp", &clock::now().to_string()),
        ] {
            request.set_meta(field, value);
        }
        tree::set(&mut request, &["spec", "audiences"], tree::list(audiences.iter().map(|audience| audience.as_str())));
        tree::set(&mut request, &["spec", "expirationSeconds"], seconds);
        let status = tree::map([("token", token.into()), ("expirationTimestamp", expires.to_string().into())]);
        tree::set(&mut request, &["status"], status);
        Ok(ApiResponse::document(StatusCode::CREATED, wanted, encoding::tree(wanted, &request)?))
    }

    /// The object that the token is bound to, which must exist, and the node of a pod.
    fn bound_objects(&self, request: &Value) -> Result<Vec<BoundObject>, Rejection> {
        let Some(reference) = tree::get(request, &["spec", "boundObjectRef"]).filter(|found| !found.is_null()) else {
            return Ok(Vec::new());
        };
        let (kind, name) = (tree::text(reference, &["kind"]), tree::text(reference, &["name"]));
        let storage = match kind {
            "Pod" => "pods",
            "Secret" => "secrets",
            "Node" => "nodes",
            other => {
                let why = format!("cannot bind token for serviceaccount to object of kind {other:?}");
                return Err(Status::bad_request(why).into());
            }
        };
        let catalog = self.call.registry.catalog();
        let resource = catalog.of_storage(storage).ok_or_else(Rejection::no_such_resource)?;
        let namespace = if resource.namespaced { &*self.target.namespace } else { "" };
        let object = self.call.registry.get(resource, namespace, name)?.object;
        let object = object.tree();
        let uid = tree::text(reference, &["uid"]);
        if !uid.is_empty() && uid != object.uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            );
            return Err(Status::conflict(&resource.group_resource(), name, why).into());
        }
        let account = &self.target.name;
        if kind == "Pod" && tree::text(&object, &["spec", "serviceAccountName"]) != account.as_str() {
            let why = format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                account.as_str()
            );
            return Err(Status::bad_request(why).into());
        }
        let mut bound = vec![BoundObject { kind: kind.into(), name: name.into(), uid: object.uid().into() }];
        let node = tree::text(&object, &["spec", "nodeName"]);
        if kind == "Pod" && !node.is_empty() {
            let stored = catalog.of_storage("nodes").and_then(|nodes| self.call.registry.get(nodes, "", node).ok());
            let uid = stored.map(|stored| Str::from(stored.object.tree().uid())).unwrap_or_default();
            bound.push(BoundObject { kind: "Node".into(), name: node.into(), uid });
        }
        Ok(bound)
    }
}

fn check_seconds(seconds: i64) -> Result<(), Rejection> {
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let kind = GroupKind::from_static("authentication.k8s.io", "TokenRequest");
    Err(Status::invalid(&kind, "", [StatusCause::invalid("spec.expirationSeconds", seconds, why)]).into())
}
