//! Admission policies: rules in CEL about any write, put into force by bindings. What those do that change objects is in
//! `mutation`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::{Str, Value};

use super::attributes::Attributes;
use super::matching::Version;
use super::mutation::Mutation;
use super::{Control, matching};
use crate::authentication::User;
use crate::authorization::{self, Action};
use crate::cel::{self, Budget, Check, CheckStage, Program, Type, Variables};
use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::storage::Scope;

/// What an expression of a policy may use.
const VARIABLES: [&str; 7] = ["object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer"];

/// Policies that have been compiled, by the revision of the policy.
#[derive(Default)]
pub(crate) struct Policies {
    compiled: Mutex<HashMap<u64, Arc<Policy>>>,
}

/// The variables of a policy, as far as their types are known.
pub(crate) fn environment() -> Vec<(&'static str, Type)> {
    let ty = |name: &str| if name == "authorizer" { Type::Named("authorizer") } else { Type::Dyn };
    VARIABLES.map(|name| (name, ty(name))).to_vec()
}

/// A policy that is ready to be asked.
pub(super) struct Policy {
    pub(super) value: Value,
    pub(super) conditions: Vec<(Str, Compiled)>,
    variables: Vec<(Str, Compiled)>,
    validations: Vec<Validation>,
    pub(super) mutations: Vec<Mutation>,
}

struct Validation {
    expression: Str,
    program: Compiled,
    message: Str,
    message_expression: Option<Program>,
    reason: Str,
}

/// A program, or why it is none.
pub(super) type Compiled = Result<Program, String>;

/// A policy with one of the bindings that put it into force.
pub(super) struct Bound {
    pub(super) policy: Arc<Policy>,
    pub(super) binding: Value,
}

/// All policies of a kind that are in force: `validating` or `mutating` ones.
pub(super) fn all(registry: &Registry, kind: &str) -> Vec<Bound> {
    let of = |plural: &str| Scope::resource(format!("{kind}admission{plural}.admissionregistration.k8s.io"));
    let bindings = registry.all(&of("policybindings"));
    if bindings.is_empty() {
        return Vec::new();
    }
    let policies = registry.all(&of("policies"));
    let mut compiled = registry.policies.compiled.lock().unwrap_or_else(PoisonError::into_inner);
    // Those of the other kind are others' business.
    compiled
        .retain(|revision, policy| policy.kind() != kind || policies.iter().any(|entry| entry.revision == *revision));
    let bound = bindings.iter().filter_map(|binding| {
        let name = tree::text(binding.object.value(), &["spec", "policyName"]);
        let entry = policies.iter().find(|entry| entry.object.value().name() == name)?;
        let policy = compiled.entry(entry.revision).or_insert_with(|| Arc::new(Policy::read(entry.object.value())));
        Some(Bound { policy: Arc::clone(policy), binding: binding.object.value().clone() })
    });
    bound.collect()
}

impl Policy {
    fn read(value: &Value) -> Policy {
        let environment = environment();
        let compile = |text: &str| Program::compile(text, &environment).map_err(|error| error.to_string());
        let named = |field: &str| {
            let items = tree::items(value, &["spec", field]).iter();
            items.map(|item| (tree::text(item, &["name"]).into(), compile(tree::text(item, &["expression"])))).collect()
        };
        let validation = |item: &Value| Validation {
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
}

impl Policy {
    /// Adds the variables of the policy to those that tell of the write.
    pub(super) fn compute(&self, variables: &mut Variables<'_>, budget: &mut Budget) {
        for (name, program) in &self.variables {
            let value = match program {
                Ok(program) => program.evaluate(variables, budget),
                Err(why) => Err(cel::EvaluationError::Failed(why.clone())),
            };
            variables.compute(name.clone(), value);
        }
    }
}

impl Bound {
    /// Refuses a write, or warns of it, if it breaks the policy.
    pub(super) fn check(
        &self,
        control: &Control<'_>,
        registry: &Registry,
        attributes: &Attributes<'_>,
    ) -> Result<(), Rejection> {
        let Some(version) = self.version(control, registry, attributes) else { return Ok(()) };
        control.seen_in(&version, attributes, |attributes| self.check_seen(control, registry, attributes))?
    }

    fn check_seen(
        &self,
        control: &Control<'_>,
        registry: &Registry,
        attributes: &Attributes<'_>,
    ) -> Result<(), Rejection> {
        let parameters = match self.parameters(registry, attributes) {
            Ok(parameters) => parameters,
            Err(why) if self.policy.fails_closed() => {
                return self.act(control, attributes, &format!("failed to configure binding: {why}"), "");
            }
            Err(_) => return Ok(()),
        };
        for parameter in parameters {
            self.check_with(control, registry, attributes, &parameter)?;
        }
        Ok(())
    }

    /// The version in which the policy wants to see a write, if it and its binding are about it.
    pub(super) fn version(
        &self,
        control: &Control<'_>,
        registry: &Registry,
        attributes: &Attributes<'_>,
    ) -> Option<Version> {
        let constraints = tree::get(&self.policy.value, &["spec", "matchConstraints"])?;
        let narrowed = tree::get(&self.binding, &["spec", "matchResources"]);
        let version = version(registry, constraints, control, attributes, true)?;
        let is_bound =
            narrowed.is_none_or(|narrowed| self::version(registry, narrowed, control, attributes, false).is_some());
        is_bound.then_some(version)
    }

    fn check_with(
        &self,
        control: &Control<'_>,
        registry: &Registry,
        attributes: &Attributes<'_>,
        parameter: &Value,
    ) -> Result<(), Rejection> {
        let mut variables = variables(control, registry, attributes);
        variables.set("params", cel::Value::of_tree(parameter));
        let mut budget = Budget::for_object();
        let mut failure = None;
        for (name, condition) in &self.policy.conditions {
            match evaluate(condition, &variables, &mut budget) {
                Ok(true) => {}
                // This decides, whatever becomes of the others.
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

    /// Does what the binding wants done about a breach.
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

    /// The objects that the policy is asked with, one after the other; `null` where it takes none.
    pub(super) fn parameters(&self, registry: &Registry, attributes: &Attributes<'_>) -> Result<Vec<Value>, String> {
        let Some(kind) = tree::get(&self.policy.value, &["spec", "paramKind"]) else { return Ok(vec![Value::Null]) };
        let Some(reference) = tree::get(&self.binding, &["spec", "paramRef"]) else { return Ok(vec![Value::Null]) };
        let catalog = registry.catalog();
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
                let all = registry.all(&resource.scope(namespace)).into_iter().map(|entry| entry.object);
                let chosen =
                    all.filter(|object| selector.as_ref().is_none_or(|selector| selector.matches(&object.labels)));
                chosen.map(|object| object.value().clone()).collect()
            }
            name => {
                registry.get(resource, namespace, name).map(|entry| entry.object.value().clone()).into_iter().collect()
            }
        };
        match (found.is_empty(), tree::text(reference, &["parameterNotFoundAction"])) {
            (true, "Deny") => Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()),
            _ => Ok(found),
        }
    }
}

impl Validation {
    fn message(&self, variables: &Variables<'_>, budget: &mut Budget) -> String {
        let made = self.message_expression.as_ref().and_then(|program| program.text(variables, budget).ok());
        match made.filter(|text| !text.trim().is_empty() && !text.contains('\n')) {
            Some(text) => text.to_string(),
            None if !self.message.is_empty() => self.message.to_string(),
            None => format!("failed expression: {}", self.expression.trim()),
        }
    }
}

/// The variables that tell of a write, the same for policies and for conditions of webhooks.
pub(super) fn variables<'a>(
    control: &'a Control<'_>,
    registry: &'a Registry,
    attributes: &Attributes<'_>,
) -> Variables<'a> {
    let value = |tree: Option<&Value>| tree.map_or(cel::Value::Null, cel::Value::of_tree);
    let mut variables = Variables::default();
    variables.set("object", value(attributes.object));
    variables.set("oldObject", value(attributes.old));
    variables.set("request", cel::Value::of_tree(&attributes.request(control)));
    variables.set("namespaceObject", value(matching::namespace(registry, attributes).as_ref()));
    let resource = attributes.resource;
    let request = Check {
        stage: CheckStage::Resource,
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        subresource: control.subresource.clone(),
        namespace: attributes.namespace.into(),
        name: attributes.name.into(),
        ..Check::default()
    };
    let nothing = Check { request: Some(Arc::new(request)), ..Check::default() };
    variables.authorize_by(nothing, |check, verb| decide(registry, control.user, check, verb));
    variables
}

/// Whether somebody may do what an expression asks about.
fn decide(registry: &Registry, user: &User, check: &Check, verb: &str) -> (bool, String) {
    let account = check.account.as_ref().map(|(namespace, name)| {
        let groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()];
        User::authenticated(format!("system:serviceaccount:{namespace}:{name}"), "", groups)
    });
    let action = match check.stage {
        CheckStage::Path => Action::Path { verb, path: &check.path },
        _ => Action::Resource {
            verb,
            group: &check.group,
            resource: &check.resource,
            subresource: &check.subresource,
            namespace: &check.namespace,
            name: &check.name,
        },
    };
    let decision = authorization::decide(registry, account.as_ref().unwrap_or(user), action);
    (decision.is_allowed, decision.reason)
}

/// Whether a condition holds, or why it has no answer.
pub(super) fn evaluate(program: &Compiled, variables: &Variables<'_>, budget: &mut Budget) -> Result<bool, String> {
    let program = program.as_ref().map_err(|why| format!("compilation failed: {why}"))?;
    program.is_true(variables, budget).map_err(|error| error.to_string())
}

/// The version in which something matches a write, if it does.
fn version(
    registry: &Registry,
    matched: &Value,
    control: &Control<'_>,
    attributes: &Attributes<'_>,
    needs_rule: bool,
) -> Option<Version> {
    let match_policy = tree::text(matched, &["matchPolicy"]);
    let by = |rules: &[Value]| matching::version(registry, rules, attributes, &control.subresource, match_policy);
    let rules = tree::items(matched, &["resourceRules"]);
    let version = if rules.is_empty() && !needs_rule { Version::Own } else { by(rules)? };
    let is_met = by(tree::items(matched, &["excludeResourceRules"])).is_none()
        && matching::selectors_fit(registry, matched, attributes);
    is_met.then_some(version)
}
