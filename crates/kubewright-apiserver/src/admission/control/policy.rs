//! Validating admission policies, and what they share with mutating ones in `mutation`.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use kubewright_cel::{
    Activation, AuthorizationCheck, AuthorizationDecision, Budget, CheckKind, EvaluationError, Program,
    Value as CelValue,
};
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::{FieldSelector, Selector, Str, Value};

use super::ControlState;
use super::attributes::Attributes;
use super::matching::ReviewVersion;
use super::mutation::Mutation;
use super::{Control, matching};
use kubewright_auth::User;
use kubewright_auth::authorization::{self, Action, ResourceAction};
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_storage::KeyRange;
use kubewright_validation::admission_policy::policy_environment;

/// Cache of compiled policies, by the revision of the policy object.
#[derive(Default)]
pub(crate) struct Policies {
    compiled: Mutex<HashMap<u64, Arc<Policy>>>,
}

/// A compiled policy.
pub(super) struct Policy {
    pub(super) value: Value,
    pub(super) conditions: Vec<(Str, Compiled)>,
    variables: Vec<(Str, Compiled)>,
    validations: Vec<PolicyValidation>,
    pub(super) mutations: Vec<Mutation>,
}

struct PolicyValidation {
    expression: Str,
    program: Compiled,
    message: Str,
    message_expression: Option<Program>,
    reason: Str,
}

/// A compiled program, or the compilation error.
pub(super) type Compiled = Result<Program, String>;

/// A policy with one of its bindings.
pub(super) struct BoundPolicy {
    pub(super) policy: Arc<Policy>,
    pub(super) binding: Value,
}

/// All bound policies. `kind` is `validating` or `mutating`.
pub(super) fn all(cluster: &dyn ControlState, kind: &str) -> Vec<BoundPolicy> {
    let of = |plural: &str| KeyRange::resource(format!("{kind}admission{plural}.admissionregistration.k8s.io"));
    let bindings = cluster.all(&of("policybindings"));
    if bindings.is_empty() {
        return Vec::new();
    }
    let policies = cluster.all(&of("policies"));
    let mut compiled = cluster.policies().compiled.lock().unwrap_or_else(PoisonError::into_inner);
    // Evict only stale policies of this kind: the cache holds both kinds.
    compiled
        .retain(|revision, policy| policy.kind() != kind || policies.iter().any(|entry| entry.revision == *revision));
    let bound = bindings.iter().filter_map(|binding| {
        let name = tree::text(binding.object.value(), &["spec", "policyName"]);
        let entry = policies.iter().find(|entry| entry.object.value().name() == name)?;
        let policy = compiled.entry(entry.revision).or_insert_with(|| Arc::new(Policy::read(entry.object.value())));
        Some(BoundPolicy { policy: Arc::clone(policy), binding: binding.object.value().clone() })
    });
    bound.collect()
}

impl Policy {
    fn read(value: &Value) -> Policy {
        let environment = policy_environment();
        let compile = |text: &str| environment.compile(text).map_err(|error| error.to_string());
        let named = |field: &str| {
            let items = tree::items(value, &["spec", field]).iter();
            items.map(|item| (tree::text(item, &["name"]).into(), compile(tree::text(item, &["expression"])))).collect()
        };
        let validation = |item: &Value| PolicyValidation {
            expression: tree::text(item, &["expression"]).into(),
            program: compile(tree::text(item, &["expression"])),
            message: tree::text(item, &["message"]).into(),
            message_expression: item
                .get("messageExpression")
                .and_then(Value::as_str)
                .and_then(|text| compile(text).ok()),
            reason: tree::text(item, &["reason"]).into(),
        };
        Policy {
            conditions: named("matchConditions"),
            variables: named("variables"),
            validations: tree::items(value, &["spec", "validations"]).iter().map(validation).collect(),
            mutations: tree::items(value, &["spec", "mutations"]).iter().map(Mutation::read).collect(),
            value: value.clone(),
        }
    }

    fn kind(&self) -> &'static str {
        if tree::text(&self.value, &["kind"]) == "MutatingAdmissionPolicy" { "mutating" } else { "validating" }
    }

    pub(super) fn fails_closed(&self) -> bool {
        tree::text(&self.value, &["spec", "failurePolicy"]) != "Ignore"
    }

    /// The resources and operations that the policy matches.
    pub(super) fn rules(&self) -> &[Value] {
        tree::items(&self.value, &["spec", "matchConstraints", "resourceRules"])
    }
}

impl Policy {
    /// Adds the policy's own variables to the variables of the write.
    pub(super) fn compute(&self, variables: &mut Activation<'_>, budget: &mut Budget) {
        for (name, program) in &self.variables {
            let value = match program {
                Ok(program) => program.evaluate(variables, budget),
                Err(why) => Err(EvaluationError::Failed(why.clone())),
            };
            variables.set_composited(name.clone(), value);
        }
    }
}

impl BoundPolicy {
    /// Rejects a write that violates the policy, or warns about it.
    pub(super) fn check(
        &self,
        control: &Control<'_>,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
    ) -> Result<(), Rejection> {
        let Some(version) = self.version(control, cluster, attributes) else { return Ok(()) };
        control.in_version(&version, attributes, |attributes| self.check_seen(control, cluster, attributes))?
    }

    fn check_seen(
        &self,
        control: &Control<'_>,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
    ) -> Result<(), Rejection> {
        let parameters = match self.parameters(cluster, attributes) {
            Ok(parameters) => parameters,
            Err(why) if self.policy.fails_closed() => {
                return self.act(control, attributes, &format!("failed to configure binding: {why}"), "");
            }
            Err(_) => return Ok(()),
        };
        for parameter in parameters {
            self.check_with(control, cluster, attributes, &parameter)?;
        }
        Ok(())
    }

    /// The version in which the policy receives the write. `None` if it or its binding does not
    /// match.
    pub(super) fn version(
        &self,
        control: &Control<'_>,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
    ) -> Option<ReviewVersion> {
        let constraints = tree::get(&self.policy.value, &["spec", "matchConstraints"])?;
        let narrowed = tree::get(&self.binding, &["spec", "matchResources"]);
        let version = version(cluster, constraints, control, attributes, true)?;
        let is_bound =
            narrowed.is_none_or(|narrowed| self::version(cluster, narrowed, control, attributes, false).is_some());
        is_bound.then_some(version)
    }

    fn check_with(
        &self,
        control: &Control<'_>,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
        parameter: &Value,
    ) -> Result<(), Rejection> {
        let mut variables = variables(control, cluster, attributes);
        variables.set("params", CelValue::from_json(parameter));
        let mut budget = Budget::for_object();
        let mut failure = None;
        for (name, condition) in &self.policy.conditions {
            match evaluate(condition, &variables, &mut budget) {
                Ok(true) => {}
                // A false condition decides, whatever errors the others have.
                Ok(false) => return Ok(()),
                Err(why) => {
                    failure.get_or_insert_with(|| format!("match condition '{name}' failed: {why}"));
                }
            }
        }
        match failure {
            Some(why) if self.policy.fails_closed() => return self.act(control, attributes, &why, ""),
            Some(_) => return Ok(()),
            None => {}
        }
        self.policy.compute(&mut variables, &mut budget);
        for validation in &self.policy.validations {
            match evaluate(&validation.program, &variables, &mut budget) {
                Ok(true) => {}
                Ok(false) => {
                    let message = validation.message(&variables, &mut budget);
                    self.act(control, attributes, &message, &validation.reason)?;
                }
                Err(_) if !self.policy.fails_closed() => {}
                Err(why) => {
                    let message = format!("expression '{}' resulted in error: {why}", validation.expression);
                    self.act(control, attributes, &message, &validation.reason)?;
                }
            }
        }
        Ok(())
    }

    /// Applies the validation actions of the binding.
    fn act(
        &self,
        control: &Control<'_>,
        attributes: &Attributes<'_>,
        message: &str,
        reason: &str,
    ) -> Result<(), Rejection> {
        let actions = matching::texts(self.binding.get("spec").unwrap_or(&Value::Null), "validationActions");
        let (policy, binding) = (self.policy.value.name(), self.binding.name());
        if actions.iter().any(|action| action == "Warn") {
            let who = format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}'");
            control.warn(format!("Validation failed for {who}: {message}"));
        }
        if !actions.iter().any(|action| action == "Deny") {
            return Ok(());
        }
        let why = format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}");
        let mut status = Status::forbidden(&attributes.resource.group_resource(), attributes.shown_name(), &why);
        let (reason, code) = match reason {
            "Unauthorized" => (reason, 401),
            "Forbidden" => (reason, 403),
            "RequestEntityTooLarge" => (reason, 413),
            _ => ("Invalid", 422),
        };
        status.reason = Some(reason.into());
        status.code = Some(code);
        Err(status.with_cause(StatusCause { reason: None, message: Some(why.into()), field: None }).into())
    }

    /// The parameter objects to evaluate the policy with. A single `null` if it takes none.
    pub(super) fn parameters(
        &self,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
    ) -> Result<Vec<Value>, String> {
        let Some(kind) = tree::get(&self.policy.value, &["spec", "paramKind"]) else { return Ok(vec![Value::Null]) };
        let Some(reference) = tree::get(&self.binding, &["spec", "paramRef"]) else { return Ok(vec![Value::Null]) };
        let catalog = cluster.catalog();
        let (api_version, kind) = (tree::text(kind, &["apiVersion"]), tree::text(kind, &["kind"]));
        let resource = catalog.of_kind(api_version, kind);
        let resource = resource
            .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'"))?;
        let namespace = match (resource.namespaced, tree::text(reference, &["namespace"])) {
            (false, _) => "",
            (true, "") => attributes.namespace_name(),
            (true, namespace) => namespace,
        };
        let found: Vec<Value> = match tree::text(reference, &["name"]) {
            "" => {
                let selector = matching::selector(reference.get("selector"));
                let all = cluster.all(&resource.scope(namespace)).into_iter().map(|entry| entry.object);
                let chosen =
                    all.filter(|object| selector.as_ref().is_none_or(|selector| selector.matches(&object.labels)));
                chosen.map(|object| object.tree().into_owned()).collect()
            }
            name => {
                let entry = cluster.newest(&resource.key(namespace, name));
                entry.map(|entry| entry.object.tree().into_owned()).into_iter().collect()
            }
        };
        match (found.is_empty(), tree::text(reference, &["parameterNotFoundAction"])) {
            (true, "Deny") => Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()),
            _ => Ok(found),
        }
    }
}

impl PolicyValidation {
    fn message(&self, variables: &Activation<'_>, budget: &mut Budget) -> String {
        let made = self.message_expression.as_ref().and_then(|program| program.evaluate_string(variables, budget).ok());
        match made.filter(|text| !text.trim().is_empty() && !text.contains('\n')) {
            Some(text) => text.to_string(),
            None if !self.message.is_empty() => self.message.to_string(),
            None => format!("failed expression: {}", self.expression.trim()),
        }
    }
}

/// The variables of a write, for policies and match conditions of webhooks.
pub(super) fn variables<'a>(
    control: &'a Control<'_>,
    cluster: &'a dyn ControlState,
    attributes: &Attributes<'_>,
) -> Activation<'a> {
    let value = |tree: Option<&Value>| tree.map_or(CelValue::Null, CelValue::from_json);
    let mut variables = Activation::new();
    variables.set("object", value(attributes.object));
    variables.set("oldObject", value(attributes.old));
    variables.set("request", CelValue::from_json(&attributes.request(control)));
    variables.set("namespaceObject", value(matching::namespace(cluster, attributes).as_ref()));
    let resource = attributes.resource;
    let request = AuthorizationCheck {
        kind: CheckKind::Resource,
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        subresource: control.subresource.clone(),
        namespace: attributes.namespace.into(),
        name: attributes.name.into(),
        ..AuthorizationCheck::default()
    };
    let initial = AuthorizationCheck { request: Some(Arc::new(request)), ..AuthorizationCheck::default() };
    variables.set_authorizer(initial, |check, verb| decide(cluster, control, check, verb));
    variables
}

/// Answers a CEL `authorizer` check.
///
/// If a webhook has to be asked first, the write ends and runs again, whatever the answer is here.
fn decide(
    cluster: &dyn ControlState,
    control: &Control<'_>,
    check: &AuthorizationCheck,
    verb: &str,
) -> AuthorizationDecision {
    let account = check.service_account.as_ref().map(|(namespace, name)| {
        let groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()];
        User::authenticated(format!("system:serviceaccount:{namespace}:{name}"), "", groups)
    });
    // Selectors that cannot be parsed are left out. The check is then about more objects.
    let field_selector: Option<FieldSelector> = selector(&check.field_selector);
    let label_selector: Option<Selector> = selector(&check.label_selector);
    let action = match check.kind {
        CheckKind::Path => Action::Path { verb, path: &check.path },
        _ => Action::Resource(ResourceAction {
            verb,
            group: &check.group,
            resource: &check.resource,
            subresource: &check.subresource,
            namespace: &check.namespace,
            name: &check.name,
            field_selector: field_selector.as_ref(),
            label_selector: label_selector.as_ref(),
            ..ResourceAction::default()
        }),
    };
    match authorization::decide(cluster, account.as_ref().unwrap_or(control.user), action) {
        Ok(decision) => AuthorizationDecision { is_allowed: decision.is_allowed, reason: decision.reason.into() },
        Err(pending) => {
            control.wait_for_authorization(pending);
            AuthorizationDecision::default()
        }
    }
}

/// A selector that is present and well-formed.
fn selector<S: FromStr>(text: &str) -> Option<S> {
    text.parse().ok().filter(|_| !text.is_empty())
}

/// Evaluates a boolean program, or explains why it failed.
pub(super) fn evaluate(program: &Compiled, variables: &Activation<'_>, budget: &mut Budget) -> Result<bool, String> {
    let program = program.as_ref().map_err(|why| format!("compilation failed: {why}"))?;
    program.evaluate_bool(variables, budget).map_err(|error| error.to_string())
}

/// The version in which match constraints match a write.
fn version(
    cluster: &dyn ControlState,
    matched: &Value,
    control: &Control<'_>,
    attributes: &Attributes<'_>,
    needs_rule: bool,
) -> Option<ReviewVersion> {
    let match_policy = tree::text(matched, &["matchPolicy"]);
    let by = |rules: &[Value]| matching::version(cluster, rules, attributes, &control.subresource, match_policy);
    let rules = tree::items(matched, &["resourceRules"]);
    let version = if rules.is_empty() && !needs_rule { ReviewVersion::Own } else { by(rules)? };
    let is_met = by(tree::items(matched, &["excludeResourceRules"])).is_none()
        && matching::selectors_fit(cluster, matched, attributes);
    is_met.then_some(version)
}
