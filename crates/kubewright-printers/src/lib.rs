//! Tables, the form in which `kubectl get` requests objects.
//!
//! A [`Printer`] has the columns of one resource and creates rows of its objects. For built-in
//! resources, the columns come from the resource table and the cells from `kinds`. For custom
//! resources, the CustomResourceDefinition has both, as [`CustomColumn`]s with a [`JsonPath`].
//!
//! [`partial_object_metadata`] has the other reduced form, which shows the metadata only. The crate
//! works on JSON trees. Content negotiation and HTTP are left to callers.
//!
//! ```
//! use kubewright_core::json;
//! use kubewright_printers::{CustomColumn, Printer, RowOptions};
//!
//! let column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"});
//! let printer = Printer::for_columns(&[CustomColumn::from_value(&column)?]);
//! let object = json!({"metadata": {"name": "a"}, "spec": {"size": 3}});
//! let row = printer.row(&object, &RowOptions::default());
//! assert_eq!(row.get("cells").unwrap().to_string(), r#"["a",3]"#);
//! # Ok::<(), kubewright_printers::JsonPathError>(())
//! ```

mod age;
mod custom;
mod kinds;
mod metadata;
mod object;

use std::borrow::Cow;

use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::{ColumnInfo, ResourceInfo, StatusReason, Time, Value, tree};

pub use age::human_duration;
pub use custom::{CustomColumn, JsonPath, JsonPathError};
use kinds::{CellsOf, OrderOf};
pub use metadata::{MetaVersion, common_list_metadata, partial_object_metadata, partial_object_metadata_list};
use object::PrintedObject;

/// The columns of one resource, and the conversion of its objects to rows.
///
/// ```
/// use kubewright_printers::{Printer, RowOptions};
/// let resource = kubewright_api::resources().into_iter().find(|info| info.plural == "configmaps").unwrap();
/// let printer = Printer::for_resource(resource);
/// let object = r#"{"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}}"#.parse()?;
/// let row = printer.row(&object, &RowOptions::default());
/// assert_eq!(row.get("cells").unwrap().to_string(), r#"["a",2,"<unknown>"]"#);
/// # Ok::<(), kubewright_core::DecodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Printer(PrinterKind);

#[derive(Debug, Clone)]
enum PrinterKind {
    BuiltIn { columns: &'static [ColumnInfo], cells: CellsOf, order: Option<OrderOf> },
    Custom(Vec<CustomColumn>),
}

/// The object that a row contains besides its cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Include {
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

impl Include {
    /// Parses the query parameter `includeObject`.
    ///
    /// # Errors
    ///
    /// 400 for an unknown value.
    pub fn parse(text: &str) -> Result<Include, Box<Status>> {
        match text {
            "" | "Metadata" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            "None" => Ok(Include::None),
            other => {
                let cause = StatusCause::invalid(
                    "includeObject",
                    format_args!("{other:?}"),
                    "must be 'Metadata', 'Object', 'None', or empty",
                );
                let message = cause.message.unwrap_or_default();
                let message = format!("Unable to convert to Table as requested: includeObject: {message}");
                Err(Box::new(Status::failure(StatusReason::BadRequest, message)))
            }
        }
    }
}

/// Options for creating rows.
#[derive(Debug, Clone, Copy)]
pub struct RowOptions {
    /// The object that rows contain.
    pub include: Include,
    /// The version of the table, and of the metadata in its rows.
    pub version: MetaVersion,
    /// The current time, for ages.
    pub now: Time,
}

impl Default for RowOptions {
    fn default() -> Self {
        RowOptions { include: Include::default(), version: MetaVersion::V1, now: Time::now() }
    }
}

impl Printer {
    /// The printer of a built-in resource. Without columns, it shows name and creation time.
    pub fn for_resource(info: &'static ResourceInfo) -> Self {
        let (columns, cells) = match info.columns {
            [] => (DEFAULT_COLUMNS, kinds::default_cells as CellsOf),
            columns => (columns, kinds::cells_of(info)),
        };
        Printer(PrinterKind::BuiltIn { columns, cells, order: kinds::order_of(info) })
    }

    /// The printer of a custom resource. Without columns, it shows name and age.
    pub fn for_columns(columns: &[CustomColumn]) -> Self {
        Printer(PrinterKind::Custom(match columns {
            [] => vec![CustomColumn::age()],
            columns => columns.to_vec(),
        }))
    }

    /// The printer of the `scale` subresource.
    pub fn for_scale() -> Self {
        Printer(PrinterKind::BuiltIn { columns: SCALE_COLUMNS, cells: kinds::scale_cells, order: None })
    }

    /// Whether the `rows` of an empty table are `null`, as Go's default printer leaves them.
    pub fn writes_null_rows(&self) -> bool {
        matches!(self.0, PrinterKind::BuiltIn { columns, .. } if columns.iter().any(|column| column.name == "Created At"))
    }

    /// The column definitions.
    #[doc(alias = "columnDefinitions")]
    pub fn columns(&self) -> Value {
        match &self.0 {
            PrinterKind::BuiltIn { columns, .. } => tree::array(columns.iter().map(|column| {
                definition(column.name, column.ty, column.format, description(column.name), column.priority.into())
            })),
            PrinterKind::Custom(columns) => {
                let name = definition("Name", "string", "name", description("Name"), 0);
                tree::array(std::iter::once(name).chain(columns.iter().map(CustomColumn::definition)))
            }
        }
    }

    /// The row of one object.
    pub fn row(&self, value: &Value, options: &RowOptions) -> Value {
        let view = PrintedObject { value, now: options.now };
        let cells = match &self.0 {
            PrinterKind::BuiltIn { cells, .. } => cells(&view),
            PrinterKind::Custom(columns) => {
                let name = std::iter::once(view.name());
                name.chain(columns.iter().map(|column| column.cell(&view))).collect()
            }
        };
        let carried = match options.include {
            Include::Metadata => partial_object_metadata(value, options.version),
            Include::Object => value.clone(),
            Include::None => Value::Null,
        };
        let mut row = tree::map([("cells", cells.into()), ("object", carried)]);
        if let Some(conditions) = kinds::conditions(&view) {
            tree::set(&mut row, &["conditions"], conditions);
        }
        row
    }

    /// Sorts objects in row order.
    pub fn sort<T>(&self, objects: &mut [T], tree: impl Fn(&T) -> Cow<'_, Value>) {
        let PrinterKind::BuiltIn { order: Some(order), .. } = &self.0 else { return };
        objects.sort_by(|one, other| order(&tree(one), &tree(other)));
    }

    /// Creates a table.
    ///
    /// `metadata` is that of the list, or of a single object. `columns` is `None` for all but the
    /// first event of a watch. Rows have the order of the objects, except for flow schemas, which
    /// are sorted by precedence.
    pub fn table<'v>(
        &self,
        metadata: &Value,
        objects: impl IntoIterator<Item = &'v Value>,
        columns: Option<Value>,
        options: &RowOptions,
    ) -> Value {
        let mut objects: Vec<&Value> = objects.into_iter().collect();
        if let PrinterKind::BuiltIn { order: Some(order), .. } = &self.0 {
            objects.sort_by(|one, other| order(one, other));
        }
        tree::map([
            ("kind", Value::from("Table")),
            ("apiVersion", Value::from(options.version.api_version())),
            ("metadata", common_list_metadata(metadata)),
            ("columnDefinitions", columns.unwrap_or_default()),
            ("rows", tree::array(objects.into_iter().map(|value| self.row(value, options)))),
        ])
    }
}

const DEFAULT_COLUMNS: &[ColumnInfo] = &[
    ColumnInfo { name: "Name", ty: "string", format: "name", priority: 0 },
    ColumnInfo { name: "Created At", ty: "date", format: "", priority: 0 },
];

const SCALE_COLUMNS: &[ColumnInfo] = &[
    ColumnInfo { name: "Name", ty: "string", format: "name", priority: 0 },
    ColumnInfo { name: "Desired", ty: "integer", format: "", priority: 0 },
    ColumnInfo { name: "Available", ty: "integer", format: "", priority: 0 },
    ColumnInfo { name: "Age", ty: "string", format: "", priority: 0 },
];

fn definition(name: &str, ty: &str, format: &str, description: &str, priority: i64) -> Value {
    tree::map([
        ("name", name.into()),
        ("type", ty.into()),
        ("format", format.into()),
        ("description", description.into()),
        ("priority", priority.into()),
    ])
}

/// The description of a column that many kinds share.
fn description(heading: &str) -> &'static str {
    match heading {
        "Name" => "The name of the object, unique within its namespace.",
        "Age" | "Created At" => "When the object was created.",
        "Status" => "The state the object is in.",
        "Containers" => "The names of the containers.",
        "Images" => "The images of the containers.",
        "Selector" => "Which objects are selected, by their labels.",
        _ => "A value of the object.",
    }
}

#[cfg(test)]
mod tests;
