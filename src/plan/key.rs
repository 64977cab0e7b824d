//! The key of a stage: one list of components is both hashed and shown, so that what `why` prints is what decides.
//!
//! Never in a key: names of stages, order, comments, paths, threads, times, and devices of the same class.

use super::expand::{Node, NodeId, Plan};
use crate::base::{Digest, canon};
use crate::spec::Params;
use crate::spec::catalog::{Catalog, Field, RECIPE, Shape, StageKind, Type};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

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
        let mut list: Components<'_> = self.components.iter().map(|(name, value)| (Cow::from(name), Cow::Borrowed(value))).collect();
        hash(&mut list)
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

type Components<'a> = Vec<(Cow<'a, str>, Cow<'a, Value>)>;

impl Plan {
    /// The key of a node with all that belongs to it, or `None` while `digest_of` does not know every output that the node reads.
    #[must_use]
    pub fn key(&self, id: NodeId, digest_of: &dyn Fn(NodeId, &str) -> Option<Digest>) -> Option<StageKey> {
        let node = self.node(id);
        let mut components = self.components(node, digest_of)?;
        let key = hash(&mut components);
        let mut map = Map::new();
        for (name, value) in &components {
            map.insert(name.clone().into_owned(), value.clone().into_owned());
        }
        let mut lineage = None;
        let mut extent = None;
        if let Some((name, component)) = &self.kind(node).extends
            && let Some(value) = node.params.get(name).and_then(Value::as_u64)
        {
            components.retain(|(name, _)| **name != **component);
            // A lineage must never equal a key.
            components.push(("stage.lineage".into(), Cow::Owned((*name).into())));
            lineage = Some(hash(&mut components));
            extent = Some(value);
        }
        Some(StageKey { key, manifest: Manifest { components: map }, lineage, extent })
    }

    /// The key alone, cheaper than [`Plan::key`].
    #[must_use]
    pub fn digest(&self, id: NodeId, digest_of: &dyn Fn(NodeId, &str) -> Option<Digest>) -> Option<Digest> {
        self.components(self.node(id), digest_of).map(|mut components| hash(&mut components))
    }

    /// All components, in no particular order.
    fn components<'p>(&'p self, node: &'p Node, digest_of: &dyn Fn(NodeId, &str) -> Option<Digest>) -> Option<Components<'p>> {
        let kind = self.kind(node);
        let mut components: Components<'p> = Vec::with_capacity(32);
        let mut add = |name: &'static str, value: Value| components.push((name.into(), Cow::Owned(value)));
        add("stage.schema", KEY_SCHEMA.into());
        add("stage.kind", kind.name.into());
        add("stage.revision", node.revision.into());
        if let Some(content) = node.content {
            add("stage.content", content.hex().into());
        }
        if kind.device_sensitive {
            add("stage.device", node.device.split(':').next().unwrap_or(&node.device).into());
        }
        kind.shape.describe(&Source::Params(&node.params), &mut components);
        for input in &node.inputs {
            for (output, name) in input.outputs.iter().zip(input.components.iter()) {
                // How the other stage was made is what its key says.
                let digest = if *output == RECIPE { self.digest(input.node, digest_of)? } else { digest_of(input.node, output)? };
                components.push((Cow::Borrowed(name), Cow::Owned(Value::String(digest.hex()))));
            }
        }
        Some(components)
    }
}

/// Hashes the components, sorted by name. Names and values carry their lengths: the same bytes for the same components, and only
/// for them.
fn hash(components: &mut Components<'_>) -> Digest {
    components.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut bytes = Vec::with_capacity(1024);
    bytes.extend(b"pflpipe stage key");
    bytes.extend((components.len() as u64).to_le_bytes());
    for (name, value) in components.iter() {
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        canon::encode(value, &mut bytes);
    }
    Digest::of(&bytes)
}

/// What the keys need to know of a stage kind, with the names of all components spelled out once.
pub(super) struct KeyedKind {
    name: &'static str,
    pub(super) outputs: &'static [&'static str],
    device_sensitive: bool,
    extends: Option<(&'static str, String)>,
    shape: KeyedShape,
}

struct KeyedShape {
    tag: Option<KeyedTag>,
    fields: Vec<KeyedField>,
}

struct KeyedTag {
    name: &'static str,
    component: Arc<str>,
    revision: Arc<str>,
    variants: Vec<(&'static str, u32, Vec<KeyedField>)>,
}

struct KeyedField {
    name: &'static str,
    component: Arc<str>,
    introduced: Option<Value>,
    inner: Option<KeyedShape>,
}

/// Parameters of a stage, or those of a nested map.
enum Source<'a> {
    Params(&'a Params),
    Map(&'a Map<String, Value>),
}

impl<'a> Source<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        match self {
            Self::Params(params) => params.get(name),
            Self::Map(map) => map.get(name),
        }
    }
}

impl KeyedKind {
    pub(super) fn new(kind: &StageKind) -> Self {
        Self {
            name: kind.name,
            outputs: kind.outputs,
            device_sensitive: kind.device_sensitive,
            extends: kind.extends.map(|name| (name, format!("param.{name}"))),
            shape: KeyedShape::new(&kind.shape, ""),
        }
    }
}

impl KeyedShape {
    fn new(shape: &Shape, prefix: &str) -> Self {
        let path = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let field = |field: &Field| {
            // A reference is in the key by the digests of what it reads, not by the name of a stage.
            (!names_stages(&field.ty)).then(|| KeyedField {
                name: field.name,
                component: format!("param.{}", path(field.name)).into(),
                introduced: field.introduced.clone(),
                inner: if let Type::Map(inner) = &field.ty { Some(Self::new(inner, &path(field.name))) } else { None },
            })
        };
        let tag = shape.tag.as_ref().map(|tag| KeyedTag {
            name: tag.name,
            component: format!("param.{}", path(tag.name)).into(),
            revision: format!("revision.{}", if prefix.is_empty() { tag.name } else { prefix }).into(),
            variants: tag.variants.iter().map(|v| (v.name, v.revision, v.fields.iter().filter_map(field).collect())).collect(),
        });
        Self { tag, fields: shape.fields.iter().filter_map(field).collect() }
    }

    /// Adds the parameters, nested ones by their path, and the revisions of the variants that they select.
    fn describe<'a>(&'a self, source: &Source<'a>, into: &mut Components<'a>) {
        let mut own = &[][..];
        if let Some(tag) = &self.tag
            && let Some(word) = source.get(tag.name)
        {
            into.push((Cow::Borrowed(&tag.component), Cow::Borrowed(word)));
            if let Some((_, revision, fields)) = tag.variants.iter().find(|(name, _, _)| word.as_str() == Some(name)) {
                into.push((Cow::Borrowed(&tag.revision), Cow::Owned((*revision).into())));
                own = fields;
            }
        }
        for field in self.fields.iter().chain(own) {
            let Some(value) = source.get(field.name) else { continue };
            if field.introduced.as_ref() == Some(value) {
                continue;
            }
            match (&field.inner, value) {
                (Some(inner), Value::Object(map)) if !map.is_empty() => inner.describe(&Source::Map(map), into),
                _ => into.push((Cow::Borrowed(&field.component), Cow::Borrowed(value))),
            }
        }
    }
}

fn names_stages(ty: &Type) -> bool {
    match ty {
        Type::Stage { .. } => true,
        Type::List(inner) => names_stages(inner),
        _ => false,
    }
}

/// The introduced values of a catalog by `kind.parameter`, for the golden file that freezes them.
#[must_use]
pub fn introduced(catalog: &dyn Catalog) -> BTreeMap<String, Value> {
    fn walk(shape: &Shape, prefix: &str, into: &mut BTreeMap<String, Value>) {
        let variants = shape.tag.iter().flat_map(|tag| &tag.variants);
        let own = variants.flat_map(|variant| variant.fields.iter().map(move |field| (format!("{prefix}.{}", variant.name), field)));
        for (owner, field) in shape.fields.iter().map(|field| (prefix.to_owned(), field)).chain(own) {
            let path = format!("{owner}.{}", field.name);
            if let Some(value) = &field.introduced {
                into.insert(path.clone(), value.clone());
            }
            if let Type::Map(inner) = &field.ty {
                walk(inner, &path, into);
            }
        }
    }
    let mut all = BTreeMap::new();
    catalog.kinds().iter().for_each(|kind| walk(&kind.shape, kind.name, &mut all));
    all
}
