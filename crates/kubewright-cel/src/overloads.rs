//! The overloads of all functions, and their resolution.
//!
//! An entry of the table is `name(arguments) result`. Methods have the type of their target and a
//! dot before the name, namespaced functions the name of the namespace. Capital letters are type
//! parameters.

use std::sync::{Arc, LazyLock};

use crate::types::{ListKind, Type};

const TABLE: &str = "
size(string) int|size(bytes) int|size(list(A)) int|size(map(A,B)) int
string.size() int|bytes.size() int|list(A).size() int|map(A,B).size() int
type(A) type|dyn(A) dyn|matches(string,string) bool
bool(bool) bool|bool(string) bool
int(int) int|int(uint) int|int(double) int|int(string) int|int(timestamp) int|int(duration) int
uint(uint) uint|uint(int) uint|uint(double) uint|uint(string) uint
double(double) double|double(int) double|double(uint) double|double(string) double
string(string) string|string(bool) string|string(int) string|string(uint) string|string(double) string
string(bytes) string|string(timestamp) string|string(duration) string|string(ip) string|string(cidr) string
bytes(string) bytes|bytes(bytes) bytes
duration(string) duration|duration(duration) duration
timestamp(string) timestamp|timestamp(int) timestamp|timestamp(timestamp) timestamp
string.contains(string) bool|string.startsWith(string) bool|string.endsWith(string) bool|string.matches(string) bool
string.find(string) string|string.findAll(string) list(string)|string.findAll(string,int) list(string)
string.lowerAscii() string|string.upperAscii() string|string.trim() string
string.charAt(int) string|string.indexOf(string) int|string.indexOf(string,int) int
string.lastIndexOf(string) int|string.lastIndexOf(string,int) int
string.replace(string,string) string|string.replace(string,string,int) string
string.split(string) list(string)|string.split(string,int) list(string)
string.substring(int) string|string.substring(int,int) string|string.format(list(A)) string
list(string).join() string|list(string).join(string) string
list(int).isSorted() bool|list(uint).isSorted() bool|list(double).isSorted() bool|list(bool).isSorted() bool
list(duration).isSorted() bool|list(timestamp).isSorted() bool|list(string).isSorted() bool|list(bytes).isSorted() bool
list(int).sum() int|list(uint).sum() uint|list(double).sum() double|list(duration).sum() duration
list(int).min() int|list(uint).min() uint|list(double).min() double|list(bool).min() bool
list(duration).min() duration|list(timestamp).min() timestamp|list(string).min() string|list(bytes).min() bytes
list(int).max() int|list(uint).max() uint|list(double).max() double|list(bool).max() bool
list(duration).max() duration|list(timestamp).max() timestamp|list(string).max() string|list(bytes).max() bytes
list(A).indexOf(A) int|list(A).lastIndexOf(A) int|list(A).reverse() list(A)|list(A).distinct() list(A)
list(A).sort() list(A)|list(A).slice(int,int) list(A)|list(list(A)).flatten() list(A)|list(A).flatten(int) list(dyn)
list(A).first() optional(A)|list(A).last() optional(A)
timestamp.getFullYear() int|timestamp.getFullYear(string) int|timestamp.getMonth() int|timestamp.getMonth(string) int
timestamp.getDate() int|timestamp.getDate(string) int|timestamp.getDayOfMonth() int|timestamp.getDayOfMonth(string) int
timestamp.getDayOfWeek() int|timestamp.getDayOfWeek(string) int|timestamp.getDayOfYear() int
timestamp.getDayOfYear(string) int|timestamp.getHours() int|timestamp.getHours(string) int|timestamp.getMinutes() int
timestamp.getMinutes(string) int|timestamp.getSeconds() int|timestamp.getSeconds(string) int
timestamp.getMilliseconds() int|timestamp.getMilliseconds(string) int
duration.getHours() int|duration.getMinutes() int|duration.getSeconds() int|duration.getMilliseconds() int
optional.of(A) optional(A)|optional.none() optional(A)|optional.ofNonZeroValue(A) optional(A)
optional(A).hasValue() bool|optional(A).value() A|optional(A).or(optional(A)) optional(A)|optional(A).orValue(A) A
isIP(string) bool|ip(string) ip|ip.isCanonical(string) bool|isCIDR(string) bool|cidr(string) cidr
ip.family() int|ip.isUnspecified() bool|ip.isLoopback() bool|ip.isLinkLocalMulticast() bool
ip.isLinkLocalUnicast() bool|ip.isGlobalUnicast() bool
cidr.ip() ip|cidr.prefixLength() int|cidr.masked() cidr|cidr.containsIP(ip) bool|cidr.containsIP(string) bool
cidr.containsCIDR(cidr) bool|cidr.containsCIDR(string) bool
isURL(string) bool|url(string) url|url.getScheme() string|url.getHost() string|url.getHostname() string
url.getPort() string|url.getEscapedPath() string|url.getQuery() map(string,list(string))
isQuantity(string) bool|quantity(string) quantity|sign(quantity) int|quantity.isInteger() bool
quantity.asInteger() int|quantity.asApproximateFloat() double|quantity.add(quantity) quantity|quantity.add(int) quantity
quantity.sub(quantity) quantity|quantity.sub(int) quantity|quantity.compareTo(quantity) int
quantity.isGreaterThan(quantity) bool|quantity.isLessThan(quantity) bool
format.named(string) optional(format)|format.dns1123Label() format|format.dns1123Subdomain() format
format.dns1035Label() format|format.qualifiedName() format|format.dns1123LabelPrefix() format
format.dns1123SubdomainPrefix() format|format.dns1035LabelPrefix() format|format.labelValue() format
format.uri() format|format.uuid() format|format.byte() format|format.date() format|format.datetime() format
format.validate(string) optional(list(string))
sets.contains(list(A),list(A)) bool|sets.equivalent(list(A),list(A)) bool|sets.intersects(list(A),list(A)) bool
strings.quote(string) string|lists.range(int) list(int)|jsonpatch.escapeKey(string) string
isSemver(string) bool|isSemver(string,bool) bool|semver(string) semver|semver(string,bool) semver
semver.major() int|semver.minor() int|semver.patch() int|semver.compareTo(semver) int
semver.isGreaterThan(semver) bool|semver.isLessThan(semver) bool
authorizer.path(string) pathCheck|authorizer.group(string) groupCheck
authorizer.serviceAccount(string,string) authorizer|authorizer.requestResource() resourceCheck
pathCheck.check(string) decision|groupCheck.resource(string) resourceCheck
resourceCheck.subresource(string) resourceCheck|resourceCheck.namespace(string) resourceCheck
resourceCheck.name(string) resourceCheck|resourceCheck.fieldSelector(string) resourceCheck
resourceCheck.labelSelector(string) resourceCheck|resourceCheck.check(string) decision
decision.allowed() bool|decision.reason() string|decision.errored() bool|decision.error() string
";

/// An overload of a function.
struct Overload {
    /// The text before the dot, as a namespace and as a type.
    target: Option<(&'static str, Type)>,
    name: &'static str,
    arguments: Vec<Type>,
    result: Type,
}

static OVERLOADS: LazyLock<Vec<Overload>> = LazyLock::new(|| {
    let lines = TABLE.split(['\n', '|']).map(str::trim).filter(|line| !line.is_empty());
    lines.filter_map(parse).collect()
});

/// The outcome of overload resolution.
pub(crate) enum Resolution {
    /// An overload matches; its result has this type.
    Result(Type),
    /// The function exists, but no overload matches.
    NoMatch,
    /// There is no function of this name.
    Unknown,
}

/// Resolves a function or a method.
pub(crate) fn resolve(target: Option<&Type>, function: &str, arguments: &[Type]) -> Resolution {
    let named = || OVERLOADS.iter().filter(|overload| overload.name == function);
    let is_candidate = |overload: &&Overload| overload.target.is_some() == target.is_some();
    // A method call of a plain function is a mismatch. A plain call of a method is unknown, because
    // the name may be that of a namespaced function.
    let is_known = named().any(|overload| is_candidate(&overload) || overload.target.is_none());
    resolution(is_known, result_type(named().filter(is_candidate), target, arguments))
}

/// Resolves a function of a namespace: `namespace.function(arguments)`.
pub(crate) fn resolve_in(namespace: &str, function: &str, arguments: &[Type]) -> Resolution {
    let is_candidate = |overload: &&Overload| {
        overload.name == function && overload.target.as_ref().is_some_and(|(name, _)| *name == namespace)
    };
    let candidates: Vec<&Overload> = OVERLOADS.iter().filter(is_candidate).collect();
    resolution(!candidates.is_empty(), result_type(candidates.iter().copied(), None, arguments))
}

fn resolution(is_known: bool, result: Option<Type>) -> Resolution {
    match (result, is_known) {
        (Some(ty), _) => Resolution::Result(ty),
        (None, true) => Resolution::NoMatch,
        (None, false) => Resolution::Unknown,
    }
}

fn result_type<'a>(
    overloads: impl Iterator<Item = &'a Overload>,
    target: Option<&Type>,
    arguments: &[Type],
) -> Option<Type> {
    let mut found: Option<Type> = None;
    for overload in overloads.filter(|overload| overload.arguments.len() == arguments.len()) {
        let mut bound = Vec::new();
        let expected = overload.target.iter().filter(|_| target.is_some()).map(|(_, ty)| ty).chain(&overload.arguments);
        if expected
            .zip(target.into_iter().chain(arguments))
            .all(|(expected, actual)| bind(expected, actual, &mut bound))
        {
            let result = substitute(&overload.result, &bound);
            // Several overloads can match a `dyn` argument. Their results may differ.
            found = match found {
                Some(other) if other != result => Some(Type::Dyn),
                _ => Some(result),
            };
        }
    }
    found
}

fn bind(expected: &Type, actual: &Type, bound: &mut Vec<(char, Type)>) -> bool {
    match (expected, actual) {
        (_, Type::Dyn) => true,
        (Type::Parameter(name), actual) => match bound.iter().find(|(known, _)| known == name) {
            Some((_, known)) => known.is_compatible(actual),
            None => {
                bound.push((*name, actual.clone()));
                true
            }
        },
        (Type::List(expected, _), Type::List(actual, _)) | (Type::Optional(expected), Type::Optional(actual)) => {
            bind(expected, actual, bound)
        }
        (Type::Map(key, value), Type::Map(actual_key, actual_value)) => {
            bind(key, actual_key, bound) && bind(value, actual_value, bound)
        }
        (expected, actual) => expected.is_compatible(actual),
    }
}

fn substitute(ty: &Type, bound: &[(char, Type)]) -> Type {
    let inner = |ty: &Arc<Type>| Arc::new(substitute(ty, bound));
    match ty {
        Type::Parameter(name) => {
            bound.iter().find(|(known, _)| known == name).map_or(Type::Dyn, |(_, bound)| bound.clone())
        }
        Type::List(items, kind) => Type::List(inner(items), kind.clone()),
        Type::Map(keys, values) => Type::Map(inner(keys), inner(values)),
        Type::Optional(ty) => Type::Optional(inner(ty)),
        ty => ty.clone(),
    }
}

fn parse(line: &'static str) -> Option<Overload> {
    let (head, result) = line.rsplit_once(' ')?;
    // The opening bracket of the argument list: the last one at the top level.
    let mut depth = 0;
    let open = head.char_indices().rev().find_map(|(at, letter)| {
        depth += match letter {
            ')' => 1,
            '(' => -1,
            _ => 0,
        };
        (letter == '(' && depth == 0).then_some(at)
    })?;
    let (callee, arguments) = (&head[..open], &head[open + 1..head.len() - 1]);
    let (target, name) = match callee.rsplit_once('.') {
        Some((target, name)) => (Some((target, ty(target))), name),
        None => (None, callee),
    };
    Some(Overload { target, name, arguments: split_arguments(arguments).map(ty).collect(), result: ty(result) })
}

/// Splits at commas outside of brackets.
fn split_arguments(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut depth = 0;
    let split = text.split(move |letter| {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        letter == ',' && depth == 0
    });
    split.filter(|part| !part.is_empty())
}

fn ty(text: &'static str) -> Type {
    let inner = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(')'));
    if let Some(items) = inner("list(") {
        return Type::List(Arc::new(ty(items)), ListKind::Atomic);
    }
    if let Some(value) = inner("optional(") {
        return Type::optional(ty(value));
    }
    if let Some(entries) = inner("map(") {
        let mut entries = split_arguments(entries).map(ty);
        let (key, value) = (entries.next().unwrap_or(Type::Dyn), entries.next().unwrap_or(Type::Dyn));
        return Type::Map(Arc::new(key), Arc::new(value));
    }
    match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Type,
        name => match name.as_bytes() {
            [letter] if letter.is_ascii_uppercase() => Type::Parameter(char::from(*letter)),
            _ => Type::Opaque(name),
        },
    }
}
