//! The key of a stage: one list of components is both hashed and shown, so that what `why` prints is what decides.
//!
//! Never in a key: names of stages, order, comments, paths, threads, times, and devices of the same class.

use super::expand::{Node, NodeId, Plan};
use crate::base::{Digest, canon};
use crate::spec::catalog::{Shape, Type};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Raised when the meaning of keys changes; every key changes with it.
const KEY_SCHEMA: u32 = 1;

/// The components of a key by name: `param.alpha`, `input.partition.assignment`, `stage.kind` ...
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest {
    /// Values by name.
    pub components: Map<String, Value>,
}

impl Manifest {
    /// The key that the components give.
    #[must_use]
    pub fn key(&self) -> Digest {
        // The names come sorted, each with its length: the same bytes for the same components, and only for them.
        let mut bytes = Vec::with_capacity(2048);
        bytes.extend((self.components.len() as u64).to_le_bytes());
        for (name, value) in &self.components {
            canon::encode(&Value::String(name.clone()), &mut bytes);
            canon::encode(value, &mut bytes);
        }
        Digest::of(&bytes)
    }
}

/// A key with what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct StageKey {
    /// The key.
    pub key: Digest,
    /// Its components.
    pub manifest: Manifest,
    /// The key without the parameter whose larger value may continue from a smaller one; equal for stages that differ only in it.
    pub lineage: Option<Digest>,
    /// The value of that parameter.
    pub extent: Option<u64>,
}

impl Plan {
    /// The key of a node, or `None` while `digest_of` does not know every output that the node reads.
    #[must_use]
    pub fn key(&self, id: NodeId, digest_of: &dyn Fn(NodeId, &str) -> Option<Digest>) -> Option<StageKey> {
        let node = self.node(id);
        let mut manifest = Manifest { components: self.describe(node) };
        for input in &node.inputs {
            for output in input.outputs {
                let digest = digest_of(input.node, output)?;
                manifest.components.insert(format!("input.{}.{output}", input.slot), Value::String(digest.hex()));
            }
        }
        let key = manifest.key();
        let (lineage, extent) = self.lineage(node, &manifest);
        Some(StageKey { key, manifest, lineage, extent })
    }

    /// All components but the inputs.
    fn describe(&self, node: &Node) -> Map<String, Value> {
        let kind = self.kind(node);
        let mut components = Map::new();
        components.insert("stage.schema".to_owned(), KEY_SCHEMA.into());
        components.insert("stage.kind".to_owned(), kind.name.into());
        components.insert("stage.revision".to_owned(), node.revision.into());
        if kind.device_sensitive {
            let class = node.device.split(':').next().unwrap_or(&node.device);
            components.insert("stage.device".to_owned(), class.into());
        }
        params(&kind.shape, &|name| node.params.get(name), "", &mut components);
        components
    }

    fn lineage(&self, node: &Node, manifest: &Manifest) -> (Option<Digest>, Option<u64>) {
        let Some(name) = self.kind(node).extends else { return (None, None) };
        let Some(extent) = node.params.get(name).and_then(Value::as_u64) else { return (None, None) };
        let mut rest = manifest.clone();
        rest.components.remove(&format!("param.{name}"));
        // A lineage must never equal a key.
        rest.components.insert("stage.lineage".to_owned(), name.into());
        (Some(rest.key()), Some(extent))
    }
}

/// Adds the parameters of a shape, nested ones by their path, and the revisions of the variants that they select.
fn params<'v>(shape: &Shape, get: &dyn Fn(&str) -> Option<&'v Value>, prefix: &str, into: &mut Map<String, Value>) {
    let path = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    let mut own = &[][..];
    if let Some(tag) = &shape.tag
        && let Some(word) = get(tag.name)
    {
        into.insert(format!("param.{}", path(tag.name)), word.clone());
        if let Some(variant) = word.as_str().and_then(|word| shape.variant(word)) {
            let owner = if prefix.is_empty() { tag.name } else { prefix };
            into.insert(format!("revision.{owner}"), variant.revision.into());
            own = &variant.fields;
        }
    }
    for field in shape.fields.iter().chain(own) {
        let Some(value) = get(field.name) else { continue };
        if field.introduced.as_ref() == Some(value) || names_stages(&field.ty) {
            continue;
        }
        match (&field.ty, value) {
            (Type::Map(inner), Value::Object(map)) if !map.is_empty() => params(inner, &|name| map.get(name), &path(field.name), into),
            _ => {
                into.insert(format!("param.{}", path(field.name)), value.clone());
            }
        }
    }
}

// A reference is in the key by the digests of what it reads, not by the name of a stage.
fn names_stages(ty: &Type) -> bool {
    match ty {
        Type::Stage { .. } => true,
        Type::List(inner) => names_stages(inner),
        _ => false,
    }
}
