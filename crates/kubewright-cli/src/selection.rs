//! Resolves arguments such as `pods`, `pod web` or `svc/web` to objects, as kubectl does.

use std::error::Error;

use clap::Args;
use kubewright_client::Client;
use kubewright_client::discovery::{RestMapper, RestMapping};
use kubewright_core::Selector;

/// Restricts the objects of a command to a namespace and labels.
#[derive(Debug, Default, Args)]
pub struct Selection {
    /// The namespace; by default that of the context.
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// Objects of all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only objects that match this label selector.
    #[arg(long, short = 'l')]
    pub selector: Option<Selector>,
}

/// Objects of one resource.
#[derive(Debug)]
pub struct Selected {
    pub mapping: RestMapping,
    /// The names of the objects; empty for the whole collection.
    pub names: Vec<String>,
}

/// A type argument with its names, before discovery.
#[derive(Debug, PartialEq, Eq)]
struct TypeAndNames<'a> {
    /// A resource or category.
    resource: &'a str,
    names: Vec<&'a str>,
}

impl Selection {
    /// The namespace, or `None` for all.
    pub fn namespace(&self, client: &Client) -> Option<String> {
        (!self.all_namespaces).then(|| self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned()))
    }

    /// The objects that the arguments name, in their order. A category stands for its resources.
    pub async fn resolve(&self, client: &Client, arguments: &[String]) -> Result<Vec<Selected>, Box<dyn Error>> {
        let mapper = client.rest_mapper();
        let mut selected: Vec<Selected> = Vec::new();
        for wanted in self.types_and_names(arguments)? {
            for mapping in mappings(&mapper, wanted.resource).await? {
                let names = wanted.names.iter().map(|name| (*name).to_owned());
                // `pod/a svc/b pod/c` has one table of pods.
                match selected.iter_mut().find(|one| one.mapping.resource == mapping.resource) {
                    Some(known) if known.names.is_empty() || wanted.names.is_empty() => known.names.clear(),
                    Some(known) => known.names.extend(names),
                    None => selected.push(Selected { mapping, names: names.collect() }),
                }
            }
        }
        Ok(selected)
    }

    /// Splits the arguments: `TYPE[,TYPE] [NAME]...` or `TYPE/NAME...`.
    fn types_and_names<'a>(&self, arguments: &'a [String]) -> Result<Vec<TypeAndNames<'a>>, Box<dyn Error>> {
        let wanted: Vec<TypeAndNames<'_>> = if arguments.iter().any(|argument| argument.contains('/')) {
            arguments.iter().map(|argument| pair(argument)).collect::<Result<_, _>>()?
        } else {
            let (types, names) = arguments.split_first().ok_or("a resource is required")?;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let types = types.split(',').filter(|resource| !resource.is_empty());
            types.map(|resource| TypeAndNames { resource, names: names.clone() }).collect()
        };
        if wanted.is_empty() {
            return Err("a resource is required, such as `pods` or `pods,services`".into());
        }
        if wanted.iter().any(|one| !one.names.is_empty()) {
            if self.selector.is_some() {
                return Err("name cannot be provided when a selector is specified".into());
            }
            if self.all_namespaces {
                return Err("a resource cannot be retrieved by name across all namespaces".into());
            }
        }
        Ok(wanted)
    }
}

/// Splits `TYPE/NAME`.
fn pair(argument: &str) -> Result<TypeAndNames<'_>, Box<dyn Error>> {
    let Some((resource, name)) = argument.split_once('/') else {
        return Err(format!("{argument:?} stands beside arguments of the form TYPE/NAME; write it in that form").into());
    };
    if resource.is_empty() || name.is_empty() || name.contains('/') {
        return Err(format!("{argument:?} is not of the form TYPE/NAME").into());
    }
    Ok(TypeAndNames { resource, names: vec![name] })
}

/// The resources of a category such as `all`, or the resource of this name.
async fn mappings(mapper: &RestMapper, name: &str) -> Result<Vec<RestMapping>, Box<dyn Error>> {
    let members = mapper.category(&name.to_lowercase()).await?;
    if !members.is_empty() {
        return Ok(members);
    }
    match mapper.find(name).await {
        Ok(mapping) => Ok(vec![mapping]),
        Err(error) if error.is_not_found() => Err(format!("the server doesn't have a resource type {name:?}").into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        arguments: Vec<String>,
        #[command(flatten)]
        selection: Selection,
    }

    fn parsed(arguments: &[&str]) -> Result<String, String> {
        let command = Command::parse_from([&["get"], arguments].concat());
        let wanted = command.selection.types_and_names(&command.arguments).map_err(|error| error.to_string())?;
        let words = wanted.iter().map(|one| format!("{} {:?}", one.resource, one.names));
        Ok(words.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn types_and_names_are_split_as_in_kubectl() {
        assert_eq!(parsed(&["pods"]), Ok("pods []".into()));
        assert_eq!(parsed(&["pods,svc"]), Ok("pods []; svc []".into()));
        assert_eq!(parsed(&["pods", "a", "b"]), Ok(r#"pods ["a", "b"]"#.into()));
        assert_eq!(parsed(&["pods,svc", "a"]), Ok(r#"pods ["a"]; svc ["a"]"#.into()));
        assert_eq!(parsed(&["pod/a", "svc/b"]), Ok(r#"pod ["a"]; svc ["b"]"#.into()));
        assert_eq!(parsed(&["pods", "-l", "app=web", "-A"]), Ok("pods []".into()));
        assert_eq!(parsed(&[","]), Err("a resource is required, such as `pods` or `pods,services`".into()));
        for wrong in ["pod/", "/a", "pod/a/b"] {
            assert_eq!(parsed(&[wrong]), Err(format!("{wrong:?} is not of the form TYPE/NAME")));
        }
        assert!(parsed(&["pods", "svc/a"]).unwrap_err().contains("write it in that form"));
    }

    #[test]
    fn a_name_excludes_selectors_and_all_namespaces() {
        for named in [&["pods", "web"][..], &["pod/web"]] {
            let with = |options: &[&str]| parsed(&[named, options].concat());
            let selector = "name cannot be provided when a selector is specified";
            assert_eq!(with(&["-l", "app=web"]), Err(selector.into()));
            let everywhere = "a resource cannot be retrieved by name across all namespaces";
            assert_eq!(with(&["-A"]), Err(everywhere.into()));
        }
    }
}
