//! A recording as the page shows it: a time line of steps, and the program at each of them.
//!
//! - `run`: the recording with its steps, and what happens between them.
//! - `moment`: the pipeline at a step.
//! - `view`: reconciles and objects up to a step.

mod moment;
mod run;
mod view;

use hyper::StatusCode;
use kubewright_recording::Recording;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::query::Query;
use crate::refusal::Refusal;
use moment::Moment;
use run::RecordedRun;
use view::{RecordedController, RecordedObject, RecordedReconcile};

/// Answers the requests of the page about a recording.
pub(crate) struct RecordedProgram {
    run: RecordedRun,
}

/// The time line, for the page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimeLine {
    program: String,
    started: String,
    steps: usize,
    /// The steps at which reconciles failed.
    failures: Vec<usize>,
}

impl RecordedProgram {
    pub(crate) fn new(recording: Recording) -> Self {
        RecordedProgram { run: RecordedRun::new(recording) }
    }

    pub(crate) fn time_line(&self) -> TimeLine {
        TimeLine {
            program: self.run.header().program.clone(),
            started: run::time_of(self.run.header().started),
            steps: self.run.steps(),
            failures: self.run.failures(),
        }
    }

    /// The answer to a request, as JSON.
    pub(crate) fn answer(&self, path: &str, query: &Query<'_>) -> Result<Box<RawValue>, Refusal> {
        let step = self.step(query)?;
        let value = match path {
            "/api/moment" => to_json(&Moment::at(&self.run, step)),
            "/api/pipeline" => to_json(Moment::at(&self.run, step).pipeline()),
            "/api/controller" => {
                let name = query.required("name")?;
                let lane = Moment::at(&self.run, step).into_controller(&name);
                let lane = lane.ok_or_else(|| not_found(format!("there is no controller {name:?} yet")))?;
                to_json(&RecordedController::new(&self.run, step, lane, &name))
            }
            "/api/reconcile" => {
                let number = query.required("number")?;
                let found = number.parse().ok().and_then(|number| RecordedReconcile::find(&self.run, number));
                to_json(&found.ok_or_else(|| not_found(format!("there is no reconcile {number}")))?)
            }
            "/api/object" => {
                let (resource, key) = (query.required("resource")?, query.required("key")?);
                let found = RecordedObject::find(&self.run, step, &resource, &key);
                to_json(
                    &found.ok_or_else(|| not_found(format!("no cache has shown {resource} {key} up to this step")))?,
                )
            }
            _ => return Err(not_found(format!("there is no page {path}"))),
        };
        Ok(value)
    }

    fn step(&self, query: &Query<'_>) -> Result<usize, Refusal> {
        let Some(step) = query.get("step") else { return Ok(self.run.steps()) };
        match step.parse::<usize>() {
            Ok(step) if step <= self.run.steps() => Ok(step),
            _ => {
                let why = format!("the step is a number from 0 to {}, and not {step:?}", self.run.steps());
                Err(Refusal::new(StatusCode::BAD_REQUEST, why))
            }
        }
    }
}

fn not_found(message: String) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, message)
}

fn to_json(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
