//! A model: an architecture with its initial parameters.

use super::task::{Host, Outputs, Task};
use super::{input, outputs, tag};
use crate::base::random::{Purpose, stream};
use crate::base::{Fault, Outcome, memory};
use crate::engine::{Model, Shape};
use crate::models;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// What the header of a stored model says; the tensors have torch's names and layouts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    kind: String,
    revision: u32,
    params: Map<String, Value>,
    shape: Shape,
    classes: usize,
}

/// The part of a data set's description that a model needs.
#[derive(Deserialize)]
struct DataInfo {
    shape: Shape,
    classes: usize,
    /// How the samples are stored; a map with `tokens` for a text.
    #[serde(default)]
    storage: Value,
}

const HEADER: &str = "pflpipe";

/// Output `model`: a safetensors file that says how to build the network, with the initial parameters.
pub(super) fn run(task: &Task, host: &dyn Host) -> Outcome<Outputs> {
    let info = host.store().read(&input(task, "data", "info")?)?;
    let info: DataInfo =
        serde_json::from_slice(&info).map_err(|e| Fault::storage(format!("the data set's description is damaged: {e}")))?;
    let kind = tag(task, "kind")?.to_owned();
    models::suits(&kind, &task.params, info.storage.get("tokens").is_some())?;
    let seed = task.params.get("seed").and_then(Value::as_u64).unwrap_or_default();
    let mut params = task.params.clone();
    for key in ["kind", "seed", "data"] {
        params.remove(key);
    }
    if let Some(vocabulary) = info.storage.get("tokens") {
        for (own, field) in [("words", "size"), ("padding", "padding")] {
            if models::asks(&kind, own) && params.get(own).is_none_or(Value::is_null) {
                params.insert(own.to_owned(), vocabulary.get(field).cloned().unwrap_or_default());
            }
        }
        let number = |name: &str| vocabulary.get(name).and_then(Value::as_u64).unwrap_or_default();
        models::enough_words(&kind, &params, number("size"), number("padding"))?;
        models::padding_is_a_word(&kind, &task.params, number("size"))?;
    }
    let net = Arc::new(models::build(&kind, &params, info.shape, info.classes)?);
    // Its parameters, and on their way to a file: in torch's order, as bytes, and as the file.
    memory::demand(net.layout().len as u64 * 16, "the model")?;
    let model = Model::init_until(net, &mut stream(seed, Purpose::Initialisation, 0, 0, 0), &|| host.stopping())?;
    let revision = models::registry().iter().find(|v| v.name == kind).map_or(0, |v| v.revision);
    let header = Header { kind, revision, params, shape: info.shape, classes: info.classes };
    outputs(host, [("model", &write(&model, &header)?)])
}

/// The stored model, ready to run.
pub(super) fn load(bytes: &[u8]) -> Outcome<Model> {
    let header = header(bytes)?;
    let damaged = |e: &dyn std::fmt::Display| Fault::storage(format!("the stored model is damaged: {e}"));
    let net = Arc::new(models::build(&header.kind, &header.params, header.shape, header.classes)?);
    let mut model = Model::init(net, &mut stream(0, Purpose::Initialisation, 0, 0, 0));
    let file = SafeTensors::deserialize(bytes).map_err(|e| damaged(&e))?;
    let mut tensors = Vec::new();
    for (name, view) in file.iter() {
        let values: Vec<f32> = view.data().as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
        tensors.push((name.to_owned(), view.shape().to_vec(), values));
    }
    model.import_torch(&tensors)?;
    Ok(model)
}

/// `model` with the header of the file from which a simulation started.
pub(super) fn rewrite(model: &Model, original: &[u8]) -> Outcome<Vec<u8>> {
    write(model, &header(original)?)
}

fn header(bytes: &[u8]) -> Outcome<Header> {
    let damaged = |e: &dyn std::fmt::Display| Fault::storage(format!("the stored model is damaged: {e}"));
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(&e))?;
    let text = metadata.metadata().as_ref().and_then(|m| m.get(HEADER)).ok_or_else(|| damaged(&"it has no header"))?;
    serde_json::from_str(text).map_err(|e| damaged(&e))
}

fn write(model: &Model, header: &Header) -> Outcome<Vec<u8>> {
    let internal = |e: &dyn std::fmt::Display| Fault::internal(format!("a model could not be written: {e}"));
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = model
        .export_torch()
        .into_iter()
        .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(|e| internal(&e))?)))
        .collect::<Outcome<Vec<_>>>()?;
    // One metadata entry only: the order of several would not be fixed.
    let text = serde_json::to_string(header).map_err(|e| internal(&e))?;
    safetensors::serialize(views, Some(HashMap::from([(HEADER.to_owned(), text)]))).map_err(|e| internal(&e))
}
