//! An own network as a list of layers. The head is one dense layer more, or several.
//!
//! A layer without a name is called by its place in the list, from 0, as torch calls the modules of a `Sequential`.

use super::{ACTIVATIONS, DROPOUT, Fields, MOST, SIZES, activation, of_words};
use crate::base::text::quoted;
use crate::base::{Fault, Outcome};
use crate::engine::{At, Layer, Network, Shape};
use crate::spec::catalog::{self, Bound, Field, Type, Variant, When};
use crate::spec::rules::Breach;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Builds the layer of a description.
type Make = fn(&Part<'_>) -> Outcome<Layer>;

/// What may stand in the list.
struct Kind {
    name: &'static str,
    doc: &'static str,
    fields: fn() -> Vec<Field>,
    make: Make,
}

/// Parameters of layers that are such.
const PAIRS: [&str; 5] = ["kernel", "stride", "padding", "dilation", "size"];
const PAIR: &str = "one number, or rows and columns";

fn pair(name: &'static str, default: Option<i64>, doc: &'static str) -> Field {
    let ty = Type::List(Box::new(Type::Int { min: 0, max: MOST }));
    match default {
        Some(default) => Field::with(name, ty, json!([default]), doc),
        None => Field::optional(name, ty, doc),
    }
}

fn name() -> Field {
    Field::optional("name", Type::Text, "Name of its parameters. When absent, its place in the list.")
}

fn size(name: &'static str, doc: &'static str) -> Field {
    Field::required(name, SIZES, doc)
}

fn eps() -> Field {
    Field::with("eps", Type::Float { min: Bound::Excl(0.0), max: Bound::Incl(1.0) }, 1e-5, "Added to the variance.")
}

fn windows() -> Vec<Field> {
    vec![
        Field::required("kernel", Type::List(Box::new(SIZES)), "Size of the window: one number, or rows and columns."),
        pair("stride", None, "Step between windows. When absent, the window's size."),
        pair("padding", Some(0), "Border at each side."),
    ]
}

fn saved() -> Vec<Field> {
    vec![Field::required("as", Type::Text, "The name of the value.")]
}

const PICKED: Type = Type::Choice(&[
    ("last-word", "that of the last word which is no padding; the first one where there is none"),
    ("first", "the first one"),
    ("last", "the last one, whatever stands there"),
]);

const KINDS: &[Kind] = &[
    Kind {
        name: "conv",
        doc: "convolution",
        fields: || {
            vec![
                size("out", "Output channels."),
                Field::required("kernel", Type::List(Box::new(SIZES)), "Size of the kernel: one number, or rows and columns."),
                pair("stride", Some(1), "Step between outputs."),
                pair("padding", Some(0), "Zeros added at each border."),
                pair("dilation", Some(1), "Distance between elements of the kernel.").read_with("kernel", When::IsNot(&["[1]", "[1,1]"])),
                Field::with("groups", SIZES, 1, "Groups of channels that do not see each other."),
                Field::with("bias", Type::Bool, true, "Whether it has a bias."),
                name(),
            ]
        },
        make: |part| {
            Ok(Layer::Conv2d {
                name: part.name(),
                out: part.size("out")?,
                kernel: part.pair("kernel")?,
                stride: part.pair("stride")?,
                padding: part.pair("padding")?,
                dilation: part.pair("dilation")?,
                groups: part.size("groups")?,
                bias: part.flag("bias"),
            })
        },
    },
    Kind {
        name: "linear",
        doc: "dense layer",
        fields: || vec![size("out", "Outputs."), Field::with("bias", Type::Bool, true, "Whether it has a bias."), name()],
        make: |part| Ok(Layer::Linear { name: part.name(), out: part.size("out")?, bias: part.flag("bias") }),
    },
    Kind {
        name: "activation",
        doc: "a function of each element; its name alone may stand in the list, too",
        fields: || vec![Field::required("function", ACTIVATIONS, "The function.")],
        make: |part| {
            let function = part.word("function")?;
            activation(&function).ok_or_else(|| Fault::stage(format!("there is no activation `{function}`")))
        },
    },
    Kind { name: "relu", doc: "max(x, 0)", fields: Vec::new, make: |_| Ok(Layer::Relu) },
    Kind { name: "flatten", doc: "an image to a vector", fields: Vec::new, make: |_| Ok(Layer::Flatten) },
    Kind { name: "mean", doc: "the mean over all pixels of each channel", fields: Vec::new, make: |_| Ok(Layer::mean()) },
    Kind {
        name: "max_pool",
        doc: "the greatest value of each window",
        fields: || {
            let mut fields = windows();
            fields.push(Field::with("ceil", Type::Bool, false, "Whether the output size is rounded up."));
            fields
        },
        make: |part| {
            let [kernel, stride, padding] = part.window()?;
            Ok(Layer::MaxPool2d { kernel, stride, padding, ceil: part.flag("ceil") })
        },
    },
    Kind {
        name: "avg_pool",
        doc: "the mean of each window; the border counts as zeros",
        fields: windows,
        make: |part| {
            let [kernel, stride, padding] = part.window()?;
            Ok(Layer::AvgPool2d { kernel, stride, padding })
        },
    },
    Kind {
        name: "adaptive_avg_pool",
        doc: "means of as many windows as wanted",
        fields: || vec![Field::required("size", Type::List(Box::new(SIZES)), "Rows and columns of the output, or one number.")],
        make: |part| Ok(Layer::AdaptiveAvgPool2d { size: part.pair("size")? }),
    },
    Kind {
        name: "batch_norm",
        doc: "batch normalisation of channels, or of a vector's elements",
        fields: || vec![eps(), name()],
        make: |part| {
            let (name, eps) = (part.name(), part.float("eps")?);
            Ok(if part.flat { Layer::BatchNorm1d { name, eps } } else { Layer::BatchNorm2d { name, eps } })
        },
    },
    Kind {
        name: "group_norm",
        doc: "normalisation of groups of channels in each sample",
        fields: || vec![size("groups", "Number of groups."), eps(), name()],
        make: |part| Ok(Layer::GroupNorm { name: part.name(), groups: part.size("groups")?, shared: false, eps: part.float("eps")? }),
    },
    Kind {
        name: "layer_norm",
        doc: "normalisation of the channels of each pixel, or of a vector",
        fields: || vec![eps(), name()],
        make: |part| Ok(Layer::LayerNorm { name: part.name(), eps: part.float("eps")? }),
    },
    Kind {
        name: "dropout",
        doc: "in training, elements are 0 at random",
        fields: || {
            vec![
                Field::with("p", DROPOUT, 0.5, "The probability."),
                Field::with("channels", Type::Bool, false, "Whether whole channels are dropped."),
            ]
        },
        make: |part| Ok(Layer::Dropout { p: part.float("p")?, channels: part.flag("channels") }),
    },
    Kind {
        name: "embedding",
        doc: "words to vectors, beside each other as the columns of an image of one row",
        fields: || vec![size("out", "Numbers of a word's vector."), name()],
        make: |part| part.fields.embedding(&part.name(), part.size("out")?, true),
    },
    Kind {
        name: "positions",
        doc: "times `scale`, plus sines and cosines by which the positions of a sequence are told apart",
        fields: || {
            let ty = Type::Float { min: Bound::Excl(0.0), max: Bound::Incl(1e6) };
            vec![Field::with("scale", ty, 1.0, "The factor; the root of the width is usual.")]
        },
        make: |part| Ok(Layer::Signs { scale: part.float("scale")? }),
    },
    Kind {
        name: "tokens",
        doc: "the pixels of an image as a sequence, with a learned token before them and something learned added to each place",
        fields: || vec![name()],
        make: |part| Ok(Layer::Tokens { name: part.name() }),
    },
    Kind {
        name: "positionwise",
        doc: "the same dense layer at every position of a sequence, or pixel of an image",
        fields: || vec![size("out", "Outputs at a position."), Field::with("bias", Type::Bool, true, "Whether it has a bias."), name()],
        make: |part| Ok(Layer::Positionwise { name: part.name(), out: part.size("out")?, bias: part.flag("bias") }),
    },
    Kind {
        name: "lstm",
        doc: "long short-term memory along a sequence",
        fields: || {
            vec![
                size("hidden", "Outputs of one direction at a position."),
                Field::with("layers", SIZES, 1, "Layers on top of each other."),
                Field::with("both", Type::Bool, false, "Whether it runs both ways; the outputs stand side by side."),
                Field::with("dropout", DROPOUT, 0.0, "Probability of dropout between layers.").read_with("layers", When::IsNot(&["1"])),
                name(),
            ]
        },
        make: |part| {
            Ok(Layer::Lstm {
                name: part.name(),
                hidden: part.size("hidden")?,
                layers: part.size("layers")?,
                both: part.flag("both"),
                dropout: part.float("dropout")?,
            })
        },
    },
    Kind {
        name: "attention",
        doc: "self-attention along a sequence, with as many outputs as inputs",
        fields: || {
            vec![
                size("heads", "Heads, which share the channels evenly."),
                Field::with("dropout", DROPOUT, 0.0, "Probability that a position's weight is dropped."),
                name(),
            ]
        },
        make: |part| Ok(Layer::Attention { name: part.name(), heads: part.size("heads")?, dropout: part.float("dropout")? }),
    },
    Kind {
        name: "pick",
        doc: "one position of a sequence, as a vector",
        fields: || vec![Field::with("at", PICKED, "last-word", "Which one.")],
        make: |part| {
            Ok(Layer::Pick(match part.word("at")?.as_str() {
                "first" => At::First,
                "last" => At::Last,
                "last-word" => At::LastWord { padding: part.fields.padding()? },
                _ => return Err(part.fault("at", "`first`, `last` or `last-word`")),
            }))
        },
    },
    Kind { name: "save", doc: "gives the current value a name", fields: saved, make: |part| Ok(Layer::Save { name: part.word("as")? }) },
    Kind { name: "load", doc: "goes on from a saved value", fields: saved, make: |part| Ok(Layer::Load { name: part.word("as")? }) },
    Kind {
        name: "add",
        doc: "adds a saved value of the same shape",
        fields: saved,
        make: |part| Ok(Layer::Add { name: part.word("as")? }),
    },
    Kind {
        name: "concat",
        doc: "puts saved values before the current one, channel after channel",
        fields: || vec![Field::required("all", Type::List(Box::new(Type::Text)), "The names of the values.")],
        make: |part| {
            let names = part.get("all").and_then(|value| serde_json::from_value(value).ok());
            Ok(Layer::Concat { names: names.ok_or_else(|| Fault::stage("`all` must be a list of names"))? })
        },
    },
];

fn kinds() -> catalog::Shape {
    let variant = |kind: &Kind| Variant { name: kind.name, doc: kind.doc, revision: 1, fields: (kind.fields)() };
    catalog::Shape::of(Vec::new()).tagged("layer", "What it is.", KINDS.iter().map(variant).collect())
}

pub(super) fn variant() -> Variant {
    let mut fields = vec![
        Field::required(
            "layers",
            Type::List(Box::new(Type::Map(kinds()))),
            "The layers of the base, first to last: names, or maps of `layer` and its parameters.",
        ),
        Field::with(
            "head",
            Type::List(Box::new(SIZES)),
            json!([]),
            "Units of the head's hidden layers, each with a ReLU; one more layer follows.",
        ),
    ];
    fields.extend(of_words());
    Variant { name: "layers", doc: "An own network: a list of layers, then the head.", revision: 1, fields }
}

/// One item of the list.
struct Part<'a> {
    fields: &'a Fields<'a>,
    kind: &'a Kind,
    own: Map<String, Value>,
    place: usize,
    /// Whether the value that comes in is a vector.
    flat: bool,
}

impl Part<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        let default = || match (self.kind.fields)().into_iter().find(|field| field.name == name)?.default {
            catalog::Default::Is(value) => Some(value),
            _ => None,
        };
        self.own.get(name).cloned().filter(|value| !value.is_null()).or_else(default)
    }
    fn fault(&self, name: &str, wanted: &str) -> Fault {
        let found = self.get(name).map_or_else(|| "nothing".to_owned(), |value| value.to_string());
        Fault::stage(format!("`{name}` of `{}` is {found}, but must be {wanted}", self.kind.name))
    }
    fn name(&self) -> String {
        self.word("name").unwrap_or_else(|_| self.place.to_string())
    }
    fn word(&self, name: &str) -> Outcome<String> {
        self.get(name).as_ref().and_then(Value::as_str).map(str::to_owned).ok_or_else(|| self.fault(name, "a word"))
    }
    fn flag(&self, name: &str) -> bool {
        self.get(name).as_ref().and_then(Value::as_bool).unwrap_or_default()
    }
    fn float(&self, name: &str) -> Outcome<f64> {
        self.get(name).as_ref().and_then(Value::as_f64).ok_or_else(|| self.fault(name, "a number"))
    }
    fn size(&self, name: &str) -> Outcome<usize> {
        self.get(name).as_ref().and_then(super::size).ok_or_else(|| self.fault(name, super::SIZE))
    }
    fn pair(&self, name: &str) -> Outcome<(usize, usize)> {
        let list = self.get(name).and_then(|list| list.as_array()?.iter().map(super::size).collect::<Option<Vec<_>>>());
        match list.as_deref() {
            Some(&[both]) => Ok((both, both)),
            Some(&[rows, columns]) => Ok((rows, columns)),
            _ => Err(self.fault(name, PAIR)),
        }
    }
    /// Kernel, stride and padding of a pool.
    fn window(&self) -> Outcome<[(usize, usize); 3]> {
        let kernel = self.pair("kernel")?;
        let stride = if self.get("stride").is_some() { self.pair("stride")? } else { kernel };
        Ok([kernel, stride, self.pair("padding")?])
    }
}

/// Whether the list has an embedding.
pub(super) fn takes_texts(params: &Map<String, Value>) -> bool {
    let is = |item: &Value| item.as_str() == Some("embedding") || item.get("layer").and_then(Value::as_str) == Some("embedding");
    params.get("layers").and_then(Value::as_array).is_some_and(|list| list.iter().any(is))
}

/// Words and padding that no layer of the list reads, where there is no table of words.
pub(super) fn unread(params: &Map<String, Value>) -> Vec<Breach> {
    let given = |name: &&&str| params.get(**name).is_some_and(|value| !value.is_null());
    let unread = ["words", "padding"];
    let names = unread.iter().filter(|_| !takes_texts(params)).filter(given);
    let fault = |name: &&str| {
        Breach::new(*name, Fault::stage(format!("`{name}` is not read without a layer `embedding`")).help("leave it out, or add the layer"))
    };
    names.map(fault).collect()
}

/// The items of the list, each with its kind; `flat` says whether a value is a vector, which only the samples decide.
fn item<'a>(fields: &'a Fields<'_>, place: usize, item: &Value, flat: bool) -> Outcome<Part<'a>> {
    let own = match item {
        Value::String(word) => json!({"layer": word}).as_object().cloned(),
        other => other.as_object().cloned(),
    };
    let own = own.ok_or_else(|| fields.fault("layers", "a list of names and maps"))?;
    let word = own.get("layer").and_then(Value::as_str).unwrap_or_default();
    let kind = KINDS.iter().find(|kind| kind.name == word).ok_or_else(|| Fault::stage(format!("there is no layer `{word}`")))?;
    Ok(Part { fields, kind, own, place, flat })
}

/// The first thing wrong with each layer that needs no samples to be seen, and names that are missing or there twice.
pub(super) fn rules(fields: &Fields<'_>) -> Vec<Breach> {
    let list = fields.value("layers");
    let Some(list) = list.as_ref().and_then(Value::as_array) else { return Vec::new() };
    let (mut breaches, mut saved, mut named) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    // Of the saved values those that nothing has loaded yet.
    let mut unused = BTreeSet::new();
    for (place, value) in list.iter().enumerate() {
        let mut breach = |part: &str, fault: Fault| {
            let path = if part.is_empty() { format!("layers.{place}") } else { format!("layers.{place}.{part}") };
            breaches.push(Breach::new(path, fault));
        };
        let part = match item(fields, place, value, false) {
            Ok(part) => part,
            Err(fault) => {
                breach("", fault);
                continue;
            }
        };
        if let Some((name, fault)) = PAIRS.iter().find_map(|name| Some((*name, part.own.get(*name).and(part.pair(name).err())?))) {
            breach(name, fault);
            continue;
        }
        // How many words there are is said by the data.
        let layer = if part.kind.name == "embedding" { Ok(Layer::Flatten) } else { (part.kind.make)(&part) };
        let mut needs = |name: &String, part: &str| {
            unused.remove(name);
            if !saved.contains(name) {
                let known = if saved.is_empty() {
                    "nothing is saved before it".to_owned()
                } else {
                    format!("saved are {}", quoted(saved.iter().map(String::as_str)))
                };
                breach(
                    part,
                    Fault::stage(format!("there is no saved value `{name}`; {known}"))
                        .help(format!("`{{layer: save, as: {name}}}` saves one")),
                );
            }
        };
        match layer {
            Err(fault) => breach("", fault),
            Ok(Layer::Load { name } | Layer::Add { name }) => needs(&name, "as"),
            Ok(Layer::Concat { names }) if names.is_empty() => {
                breach(
                    "all",
                    Fault::stage("`concat` without names puts nothing before the current value")
                        .help("name saved values in `all`, or leave the layer out"),
                );
            }
            Ok(Layer::Concat { names }) => names.iter().for_each(|name| needs(name, "all")),
            Ok(Layer::Save { name }) => {
                saved.insert(name.clone());
                if !unused.insert(name.clone()) {
                    breach(
                        "as",
                        Fault::stage(format!("`{name}` is saved twice, so that the first value, which nothing loads, is lost"))
                            .help("give each saved value a name of its own, or load the first before"),
                    );
                }
            }
            Ok(_) => {}
        }
        if (part.kind.fields)().iter().any(|field| field.name == "name") && !named.insert(part.name()) {
            let at = if part.own.contains_key("name") { "name" } else { "" };
            breach(
                at,
                Fault::stage(format!("two layers are called `{}`", part.name()))
                    .help("the parameters of a layer are found by its name, or by its place in the list where it has none"),
            );
        }
    }
    breaches
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let list = fields.value("layers");
    let list = list.as_ref().and_then(Value::as_array).ok_or_else(|| fields.fault("layers", "a list of layers"))?;
    let mut flat = shape.height * shape.width == 1;
    let mut saved = BTreeMap::new();
    let mut layers = Vec::with_capacity(list.len() + 2);
    for (place, value) in list.iter().enumerate() {
        let part = item(fields, place, value, flat)?;
        let layer = (part.kind.make)(&part)?;
        match &layer {
            Layer::Flatten | Layer::Pick(_) => flat = true,
            Layer::Embedding { .. } => flat = false,
            Layer::Save { name } => {
                saved.insert(name.clone(), flat);
            }
            Layer::Load { name } => flat = saved.get(name).copied().unwrap_or(flat),
            _ => {}
        }
        layers.push(layer);
    }
    layers.push(Layer::Flatten);
    let head = layers.len();
    let hidden = fields.sizes("head")?;
    for (index, &units) in hidden.iter().enumerate() {
        layers.extend([Layer::linear(&format!("fc.{}", 2 * index), units), Layer::Relu]);
    }
    layers.push(Layer::linear(&if hidden.is_empty() { "fc".to_owned() } else { format!("fc.{}", 2 * hidden.len()) }, classes));
    Network::build(shape, layers, head)
}
