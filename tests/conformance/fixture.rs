//! Reads a fixture: a safetensors file whose header carries the description of the run, and the data file beside it.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The `pfl` entry of the header.
#[derive(Debug, Deserialize)]
pub struct Run {
    pub algorithm: String,
    pub model: String,
    pub hidden: usize,
    pub side: usize,
    pub classes: usize,
    pub clients: usize,
    pub iterations: u64,
    pub selection: Vec<Vec<usize>>,
    pub data: String,
    pub train_samples: Vec<usize>,
    pub hyper: Map<String, Value>,
    pub settings: Map<String, Value>,
    pub all_settings: Map<String, Value>,
    pub metrics: Vec<Metric>,
    #[serde(default)]
    pub send: Vec<Send>,
    pub input_scale: f32,
    pub alias: BTreeMap<String, String>,
}

/// FedFomo: the models that a client received in a round, in order.
#[derive(Clone, Debug, Deserialize)]
pub struct Send {
    pub round: u64,
    pub client: u64,
    pub ids: Vec<usize>,
}

/// One measured entry of a client.
#[derive(Clone, Debug, Deserialize)]
pub struct Metric {
    pub round: i64,
    pub client: usize,
    pub correct: Option<f64>,
    pub n: Option<f64>,
    pub auc: Option<f64>,
    pub train_loss_sum: Option<f64>,
    pub train_n: Option<f64>,
    pub kind: Option<String>,
}

/// A tensor in the order of the reference.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

#[derive(Debug)]
pub struct Fixture {
    pub run: Run,
    pub tensors: BTreeMap<String, Tensor>,
    /// For each client: training inputs and labels, test inputs and labels.
    pub data: Vec<[Tensor; 4]>,
}

/// The fixtures of a folder, sorted; the data files are not fixtures.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "safetensors"))
        .filter(|p| p.file_name().is_some_and(|n| !n.to_string_lossy().starts_with("data-")))
        .collect();
    found.sort();
    found
}

impl Fixture {
    pub fn read(path: &Path) -> Result<Self, String> {
        let (header, tensors) = read_file(path)?;
        // Python writes an undefined AUC as NaN, which JSON does not have.
        let header = header.get("pfl").ok_or("the header has no `pfl`")?.replace(": NaN", ": null");
        let run: Run = serde_json::from_str(&header).map_err(|e| e.to_string())?;
        let (_, samples) = read_file(&path.with_file_name(&run.data))?;
        let part = |client: usize, part: &str| {
            samples.get(&format!("client{client}.{part}")).cloned().ok_or_else(|| format!("no data `client{client}.{part}`"))
        };
        let data = (0..run.clients)
            .map(|c| Ok([part(c, "train.x")?, part(c, "train.y")?, part(c, "test.x")?, part(c, "test.y")?]))
            .collect::<Result<_, String>>()?;
        Ok(Self { run, tensors, data })
    }
    /// The tensor of that name, through its alias.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(self.run.alias.get(name).map_or(name, |n| n))
    }
    /// Every name, aliases included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().chain(self.run.alias.keys()).map(String::as_str)
    }
    pub fn number(&self, setting: &str) -> f64 {
        let value = self.run.settings.get(setting).or_else(|| self.run.all_settings.get(setting));
        value.and_then(Value::as_f64).unwrap_or_else(|| panic!("the fixture has no number `{setting}`"))
    }
    pub fn flag(&self, setting: &str) -> bool {
        let value = self.run.settings.get(setting).or_else(|| self.run.all_settings.get(setting));
        value.and_then(Value::as_bool).unwrap_or(false)
    }
    /// A hyper-parameter, or the reference's setting of that name.
    pub fn hyper(&self, name: &str) -> Value {
        let value = self.run.hyper.get(name).or_else(|| self.run.all_settings.get(name));
        value.cloned().unwrap_or_else(|| panic!("the fixture has no hyper-parameter `{name}`"))
    }
}

/// The header's entries and the tensors of a file.
type Contents = (BTreeMap<String, String>, BTreeMap<String, Tensor>);

fn read_file(path: &Path) -> Result<Contents, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    let header = metadata.metadata().clone().unwrap_or_default().into_iter().collect();
    let file = safetensors::SafeTensors::deserialize(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        let raw = view.data();
        let values = match view.dtype() {
            safetensors::Dtype::F32 => raw.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect(),
            safetensors::Dtype::F64 => raw.as_chunks().0.iter().map(|c| f64::from_le_bytes(*c) as f32).collect(),
            safetensors::Dtype::I32 => raw.as_chunks().0.iter().map(|c| i32::from_le_bytes(*c) as f32).collect(),
            safetensors::Dtype::I64 => raw.as_chunks().0.iter().map(|c| i64::from_le_bytes(*c) as f32).collect(),
            safetensors::Dtype::U8 => raw.iter().map(|v| f32::from(*v)).collect(),
            other => panic!("{name}: unexpected type {other:?}"),
        };
        (name, Tensor { shape: view.shape().to_vec(), values })
    });
    Ok((header, tensors.collect()))
}
