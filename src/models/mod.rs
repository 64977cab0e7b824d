//! The model families: what a pipeline may name, and the network that each name builds.
//!
//! A family is one file here and one line in `FAMILIES`. Weights are not here; the engine initialises them.

mod alexnet;
mod amazonmlp;
mod cifarnet;
mod cnn;
mod digit5cnn;
mod fasttext;
mod googlenet;
mod harcnn;
mod layers;
mod lenet;
mod logistic;
mod mlp;
mod mobilenet;
mod resnet;
mod textcnn;
mod texts;
mod vit;

use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::engine::{Activation, Layer, Network, Shape};
use crate::spec::catalog::{Bound, Field, Type, Variant};
use crate::spec::rules::Breach;
use serde_json::{Map, Value};

/// The largest size that fits the memory of any machine, so that products of a few do not overflow.
const MOST: i64 = 65_536;
/// A number of channels, rows or units.
const SIZES: Type = Type::Int { min: 1, max: MOST };

/// A probability of dropout.
const DROPOUT: Type = Type::Float { min: Bound::Incl(0.0), max: Bound::Excl(1.0) };

/// The fields of a model of texts.
fn of_words() -> [Field; 2] {
    const WORDS: Type = Type::Int { min: 1, max: 1 << 24 };
    [
        Field::optional("words", WORDS, "Words that the model knows. When absent, those of the data set."),
        Field::optional(
            "padding",
            Type::Int { min: 0, max: 1 << 24 },
            "The word that fills texts up: its vector is 0 and stays so. When absent, that of the data set.",
        ),
    ]
}

/// The activations that a family may offer.
const ACTIVATIONS: Type = Type::Choice(&[
    ("relu", "max(x, 0)"),
    ("sigmoid", "1 / (1 + exp(-x))"),
    ("tanh", "the hyperbolic tangent"),
    ("gelu", "x times the share of a standard normal distribution below x"),
    ("silu", "x times its sigmoid"),
    ("leaky_relu", "x, or a hundredth of it where it is negative"),
    ("relu6", "min(max(x, 0), 6)"),
]);

/// The layer of an activation's name.
fn activation(name: &str) -> Option<Layer> {
    Some(match name {
        "relu" => Layer::Relu,
        "sigmoid" => Layer::Activation(Activation::Sigmoid),
        "tanh" => Layer::Activation(Activation::Tanh),
        "gelu" => Layer::Activation(Activation::Gelu),
        "silu" => Layer::Activation(Activation::Silu),
        "leaky_relu" => Layer::Activation(Activation::LeakyRelu { slope: 0.01 }),
        "relu6" => Layer::Activation(Activation::Relu6),
        _ => return None,
    })
}

/// A family: its description, and the network for an input and a number of classes.
struct Family {
    variant: fn() -> Variant,
    build: fn(&Fields<'_>, Shape, usize) -> Outcome<Network>,
    /// What can be said of the parameters without the shape of a sample.
    rules: fn(&Fields<'_>) -> Vec<Breach>,
}

/// A family whose parameters go together in every way.
fn free(_: &Fields<'_>) -> Vec<Breach> {
    Vec::new()
}

/// The breach of a rule about one parameter, as a list.
fn unless(holds: bool, path: &str, fault: impl FnOnce() -> Fault) -> Vec<Breach> {
    if holds { Vec::new() } else { vec![Breach::new(path, fault())] }
}

/// Refuses networks of convolutions that have none.
fn some_widths(fields: &Fields<'_>) -> Vec<Breach> {
    unless(fields.sizes("widths").is_ok_and(|widths| !widths.is_empty()), "widths", || {
        Fault::stage("`widths` is empty").help("use model `mlp` for a network without convolutions")
    })
}

/// Refuses other than `N` widths.
fn so_many_widths<const N: usize>(fields: &Fields<'_>) -> Vec<Breach> {
    fields.widths::<N>().err().map(|fault| Breach::new("widths", fault)).into_iter().collect()
}

/// Refuses an attention whose heads cannot share its channels; `width` names their parameter.
fn heads_share(fields: &Fields<'_>, width: &str) -> Vec<Breach> {
    let (Ok(channels), Ok(heads)) = (fields.size(width), fields.size("heads")) else { return Vec::new() };
    unless(heads > 0 && channels.is_multiple_of(heads), "heads", || {
        Fault::stage(format!("`{width}` {channels} cannot be divided among {heads} `heads`"))
            .help(format!("choose a `{width}` that is a multiple of `heads`"))
    })
}

/// Every family, in the order in which help lists them.
const FAMILIES: [Family; 21] = [
    Family { variant: cnn::variant, build: cnn::build, rules: some_widths },
    Family { variant: mlp::variant, build: mlp::build, rules: free },
    Family { variant: logistic::variant, build: logistic::build, rules: free },
    Family { variant: resnet::variant, build: resnet::build, rules: resnet::rules },
    Family { variant: harcnn::variant, build: harcnn::build, rules: some_widths },
    Family { variant: fasttext::variant, build: fasttext::build, rules: free },
    Family { variant: textcnn::variant, build: textcnn::build, rules: textcnn::rules },
    Family { variant: texts::lstm::variant, build: texts::lstm::build, rules: free },
    Family { variant: texts::bilstm::variant, build: texts::bilstm::build, rules: free },
    Family { variant: texts::transformer::variant, build: texts::transformer::build, rules: |fields| heads_share(fields, "hidden") },
    Family { variant: texts::rnn::variant, build: texts::rnn::build, rules: free },
    Family { variant: texts::rnn::variant_words, build: texts::rnn::build_words, rules: free },
    Family { variant: lenet::variant, build: lenet::build, rules: so_many_widths::<2> },
    Family { variant: cifarnet::variant, build: cifarnet::build, rules: free },
    Family { variant: digit5cnn::variant, build: digit5cnn::build, rules: digit5cnn::rules },
    Family { variant: amazonmlp::variant, build: amazonmlp::build, rules: free },
    Family { variant: mobilenet::variant, build: mobilenet::build, rules: free },
    Family { variant: alexnet::variant, build: alexnet::build, rules: so_many_widths::<5> },
    Family { variant: googlenet::variant, build: googlenet::build, rules: free },
    Family { variant: vit::variant, build: vit::build, rules: |fields| heads_share(fields, "width") },
    Family { variant: layers::variant, build: layers::build, rules: layers::rules },
];

/// Whether the samples of such a model are texts.
#[must_use]
pub fn takes_texts(kind: &str, params: &Map<String, Value>) -> bool {
    if kind == "layers" { layers::takes_texts(params) } else { asks(kind, "words") }
}

/// Whether a family has a parameter of that name.
#[must_use]
pub fn asks(kind: &str, name: &str) -> bool {
    registry().iter().any(|variant| variant.name == kind && variant.fields.iter().any(|field| field.name == name))
}

/// The families with their parameters.
#[must_use]
pub fn registry() -> Vec<Variant> {
    FAMILIES.iter().map(|family| (family.variant)()).collect()
}

/// What is wrong with the parameters of a model whatever its samples are.
#[must_use]
pub fn rules(kind: &str, params: &Map<String, Value>) -> Vec<Breach> {
    let variants = registry();
    let Some(index) = variants.iter().position(|variant| variant.name == kind) else { return Vec::new() };
    // Before some words are put in.
    let mut breaches = if kind == "layers" { layers::unread(params) } else { Vec::new() };
    let params = with_some_words(kind, params);
    breaches.extend((FAMILIES[index].rules)(&Fields { variant: &variants[index], params: &params }));
    breaches
}

/// Refuses a table of fewer words than the texts have, of which there are `size`; `padding` fills texts up.
///
/// # Errors
/// A stage fault.
pub fn enough_words(kind: &str, params: &Map<String, Value>, size: u64, padding: u64) -> Outcome<()> {
    let Some(words) = params.get("words").and_then(Value::as_u64).filter(|_| takes_texts(kind, params)) else { return Ok(()) };
    // A last word that only fills texts up may be left out, as PFLlib does where every text is full.
    if words + u64::from(padding + 1 == size) < size {
        return Err(Fault::stage(format!("`words` is {words}, but the data set has {size} words")).help("leave `words` out"));
    }
    Ok(())
}

/// Refuses a padding that is none of the `size` words, where the model does not say how many it knows.
///
/// # Errors
/// A stage fault.
pub fn padding_is_a_word(kind: &str, params: &Map<String, Value>, size: u64) -> Outcome<()> {
    let number = |name: &str| params.get(name).and_then(Value::as_u64).filter(|_| takes_texts(kind, params));
    match number("padding").filter(|padding| number("words").is_none() && *padding >= size) {
        None => Ok(()),
        Some(padding) => {
            let last = size.saturating_sub(1);
            Err(Fault::stage(format!("`padding` is {padding}, but the words of the data set are 0 to {last}")).help("leave `padding` out"))
        }
    }
}

/// The parameters with some vocabulary where the data set is to say it: what is asked here does not depend on which.
#[must_use]
pub fn with_some_words(kind: &str, params: &Map<String, Value>) -> Map<String, Value> {
    let mut params = params.clone();
    // A padding that is said is one of the words that are not.
    let most = params.get("padding").and_then(Value::as_u64).map_or(2, |padding| padding.saturating_add(1).clamp(2, 1 << 24));
    for (word, number) in [("words", most), ("padding", 0)] {
        if asks(kind, word) && params.get(word).is_none_or(Value::is_null) {
            params.insert(word.to_owned(), number.into());
        }
    }
    params
}

/// Refuses a model of numbers for texts, and one of texts for numbers.
///
/// # Errors
/// A stage fault.
pub fn suits(kind: &str, params: &Map<String, Value>, text: bool) -> Outcome<()> {
    match (takes_texts(kind, params), text) {
        (false, true) => Err(Fault::stage(format!("model `{kind}` takes numbers, but the samples are texts"))
            .help("choose a model of texts, or a data set of numbers")),
        (true, false) => Err(Fault::stage(format!("model `{kind}` takes texts, but the samples are numbers"))
            .help("choose another model, or a data set of texts")),
        _ => Ok(()),
    }
}

/// Whether such a model keeps running statistics, as batch normalisation does; nothing where no shape is known for which it can be
/// built.
#[must_use]
pub fn keeps_statistics(kind: &str, params: &Map<String, Value>, shape: Option<Shape>) -> Option<bool> {
    let params = with_some_words(kind, params);
    // Which shape makes no difference, as long as the network fits it.
    let usual = [(3, 64, 64), (1, 28, 28), (9, 1, 128), (64, 1, 1), (1, 1, 80)];
    let usual = usual.map(|(channels, height, width)| Shape { channels, height, width });
    let network = shape.into_iter().chain(usual).find_map(|shape| build(kind, &params, shape, 2).ok())?;
    Some(!network.layout().buffers.is_empty())
}

/// The network of a family for samples of `shape` and `classes` classes. Parameters that are left out have their defaults.
///
/// # Errors
/// A stage fault for an unknown family or parameter, a value of the wrong kind, or an input that is too small for the network.
pub fn build(kind: &str, params: &Map<String, Value>, shape: Shape, classes: usize) -> Outcome<Network> {
    let variants = registry();
    let Some(index) = variants.iter().position(|variant| variant.name == kind) else {
        let names = variants.iter().map(|variant| variant.name);
        let fault = Fault::stage(format!("there is no model `{kind}`; there are {}", quoted(names.clone())));
        return Err(match nearest(kind, names) {
            Some(name) => fault.help(format!("did you mean `{name}`?")),
            None => fault,
        });
    };
    let fields = Fields { variant: &variants[index], params };
    fields.check()?;
    if let Some(breach) = (FAMILIES[index].rules)(&fields).into_iter().next() {
        return Err(breach.fault.at(format!("model `{kind}`")));
    }
    (FAMILIES[index].build)(&fields, shape, classes)
        .map_err(|fault| fault.at(format!("model `{kind}` for {}x{}x{} inputs", shape.channels, shape.height, shape.width)))
}

/// The parameters of one model, read with the defaults of its family.
struct Fields<'a> {
    variant: &'a Variant,
    params: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn check(&self) -> Outcome<()> {
        let names = || self.variant.fields.iter().map(|field| field.name);
        match self.params.keys().find(|key| names().all(|name| name != key.as_str())) {
            Some(key) => Err(Fault::stage(format!("`{}` has no parameter `{key}`; it has {}", self.variant.name, quoted(names())))),
            None => Ok(()),
        }
    }
    fn value(&self, name: &str) -> Option<Value> {
        let default = || match &self.variant.fields.iter().find(|field| field.name == name)?.default {
            crate::spec::catalog::Default::Is(value) => Some(value.clone()),
            _ => None,
        };
        self.params.get(name).cloned().or_else(default)
    }
    fn fault(&self, name: &str, wanted: &str) -> Fault {
        let found = self.value(name).map_or_else(|| "nothing".to_owned(), |value| value.to_string());
        Fault::stage(format!("`{name}` of model `{}` is {found}, but must be {wanted}", self.variant.name))
    }
    fn size(&self, name: &str) -> Outcome<usize> {
        self.value(name).as_ref().and_then(size).ok_or_else(|| self.fault(name, SIZE))
    }
    fn sizes(&self, name: &str) -> Outcome<Vec<usize>> {
        let list = self.value(name);
        let list = list.as_ref().and_then(Value::as_array).map(|list| list.iter().map(size).collect::<Option<Vec<_>>>());
        list.flatten().ok_or_else(|| self.fault(name, "a list of integers from 0 to 65,536"))
    }
    /// The numbers of `widths`, of which there must be so many.
    fn widths<const N: usize>(&self) -> Outcome<[usize; N]> {
        let widths = self.sizes("widths")?;
        let found = widths.len();
        widths.try_into().map_err(|_| Fault::stage(format!("`widths` has {found} numbers, but must have {N}")))
    }
    /// Whether the field has a value.
    fn has(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| !value.is_null())
    }
    fn float(&self, name: &str) -> Outcome<f64> {
        self.value(name).as_ref().and_then(Value::as_f64).filter(|value| value.is_finite()).ok_or_else(|| self.fault(name, "a number"))
    }
    /// The table of words; with `padding`, the word that fills texts up has the vector 0.
    fn embedding(&self, name: &str, width: usize, padding: bool) -> Outcome<Layer> {
        let words = self.word_number("words")?;
        let padding = if padding { Some(self.padding()?) } else { None };
        Ok(Layer::Embedding { name: name.to_owned(), words, width, padding })
    }
    /// The word that fills a text up.
    fn padding(&self) -> Outcome<usize> {
        self.word_number("padding")
    }
    fn word_number(&self, field: &str) -> Outcome<usize> {
        let number = self.value(field).as_ref().and_then(Value::as_u64).filter(|&number| number <= 1 << 24);
        number.map(|number| number as usize).ok_or_else(|| {
            self.fault(field, "an integer up to 2^24").help("models of texts need a data set of texts, or `words` and `padding`")
        })
    }
    fn activation(&self, name: &str) -> Outcome<Layer> {
        activation(&self.word(name)?).ok_or_else(|| self.fault(name, "an activation"))
    }
    fn word(&self, name: &str) -> Outcome<String> {
        self.value(name).as_ref().and_then(Value::as_str).map(str::to_owned).ok_or_else(|| self.fault(name, "a word"))
    }
}

const SIZE: &str = "an integer from 0 to 65,536";

fn size(value: &Value) -> Option<usize> {
    value.as_u64().filter(|&size| size <= MOST as u64).and_then(|size| usize::try_from(size).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made(kind: &str, params: Value, shape: (usize, usize, usize), classes: usize) -> Outcome<Network> {
        let shape = Shape { channels: shape.0, height: shape.1, width: shape.2 };
        build(kind, params.as_object().expect("a map"), shape, classes)
    }

    #[test]
    fn an_own_network_is_a_list() {
        let list = json!({"layers": [
            {"layer": "conv", "out": 8, "kernel": [3], "padding": [1], "bias": false},
            "batch_norm",
            "relu",
            {"layer": "save", "as": "x"},
            {"layer": "conv", "out": 8, "kernel": [1, 3], "padding": [0, 1], "groups": 2, "name": "second"},
            {"layer": "add", "as": "x"},
            {"layer": "activation", "function": "gelu"},
            {"layer": "max_pool", "kernel": [2]},
            "flatten",
            "batch_norm",
            {"layer": "dropout", "p": 0.1},
        ], "head": [6]});
        let net = made("layers", list, (3, 6, 4), 5).expect("fits");
        let names: Vec<_> = net.layout().entries.iter().map(|entry| entry.name.as_str()).collect();
        let wanted = "0.weight 1.weight 1.bias second.weight second.bias 9.weight 9.bias fc.0.weight fc.0.bias fc.2.weight fc.2.bias";
        assert_eq!(names.join(" "), wanted);
        assert_eq!((net.features(), net.layout().head().len()), (48, 48 * 6 + 6 + 35));
        let fault = |layers: Value| made("layers", json!({"layers": layers}), (3, 6, 4), 5).expect_err("does not fit").to_string();
        assert!(fault(json!(["cnov"])).contains("no layer `cnov`"));
        assert!(fault(json!([{"layer": "conv", "out": 8}])).contains("`kernel` of `conv` is nothing"));
        assert!(fault(json!([{"layer": "add", "as": "x"}])).contains("no saved value `x`"));
        assert!(fault(json!([{"layer": "conv", "out": 8, "kernel": [7]}])).contains("too small"));
        let words = json!({"layers": [{"layer": "embedding", "out": 4}, "mean"], "words": 9, "padding": 0});
        assert!(takes_texts("layers", words.as_object().expect("a map")) && !takes_texts("cnn", &Map::new()));
        assert_eq!(made("layers", words, (1, 1, 7), 5).expect("fits").layout().len, 36 + 25);
    }

    // Sizes of PFLlib's models as its own construction gives them.
    #[test]
    fn parameter_counts_are_those_of_the_reference() {
        for (kind, params, shape, classes, all, head) in [
            ("cnn", json!({}), (1, 28, 28), 10, 582_026, 5_130),
            ("cnn", json!({}), (3, 32, 32), 10, 878_538, 5_130),
            ("cnn", json!({}), (3, 64, 64), 100, 5_643_300, 51_300),
            ("mlp", json!({}), (1, 28, 28), 10, 79_510, 1_010),
            ("mlp", json!({"hidden": [100]}), (3, 32, 32), 10, 308_310, 1_010),
            ("mlp", json!({"hidden": [20]}), (60, 1, 1), 10, 1_430, 210),
            ("logistic", json!({}), (1, 28, 28), 10, 7_850, 7_850),
            ("digit5cnn", json!({}), (3, 32, 32), 10, 31_805_898, 20_490),
            ("resnet", json!({"depth": 10}), (3, 32, 32), 10, 4_910_922, 5_130),
            ("resnet", json!({}), (3, 32, 32), 10, 11_181_642, 5_130),
            ("resnet", json!({"depth": 34}), (3, 32, 32), 10, 21_289_802, 5_130),
            ("alexnet", json!({}), (3, 64, 64), 10, 57_044_810, 40_970),
            ("mobilenet", json!({}), (3, 32, 32), 10, 2_236_682, 12_810),
            ("googlenet", json!({}), (3, 32, 32), 10, 5_610_154, 10_250),
            // Its last max-pool has a window larger than what is left of the image.
            ("googlenet", json!({}), (1, 28, 28), 10, 5_603_882, 10_250),
            ("fasttext", json!({"words": 32_000, "padding": 0}), (1, 1, 200), 10, 16_651_786, 5_130),
            ("textcnn", json!({"words": 32_000, "padding": 0}), (1, 1, 200), 10, 17_001_710, 3_010),
            ("lstm", json!({"words": 80, "padding": 0}), (1, 1, 80), 10, 4_248_586, 5_130),
            ("transformer", json!({"words": 32_000}), (1, 1, 200), 10, 22_693_898, 5_130),
            ("harcnn", json!({}), (9, 1, 128), 6, 2_253_958, 2_232_838),
            ("harcnn", json!({}), (9, 3, 256), 12, 4_354_188, 4_333_068),
        ] {
            let net = made(kind, params, shape, classes).expect("fits");
            assert_eq!((net.layout().len, net.layout().head().len()), (all, head), "{kind} {shape:?}");
            assert_eq!(net.classes(), classes);
        }
    }

    #[test]
    fn the_small_test_models_have_torchs_names() {
        let names = |net: &Network| net.layout().entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>().join(" ");
        let small = json!({"widths": [4, 8], "kernel": 3, "hidden": 16});
        let net = made("cnn", small.clone(), (1, 12, 12), 5).expect("fits");
        let plain = "conv1.0.weight conv1.0.bias conv2.0.weight conv2.0.bias fc1.0.weight fc1.0.bias fc.weight fc.bias";
        assert_eq!(names(&net), plain);
        assert_eq!(net.features(), 16);
        let mut params = small;
        params["norm"] = json!("batch");
        let net = made("cnn", params, (1, 12, 12), 5).expect("fits");
        assert!(names(&net).starts_with("conv1.0.weight conv1.0.bias conv1.1.weight conv1.1.bias conv2.0.weight"), "{}", names(&net));
        let buffers: Vec<_> = net.layout().buffers.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(buffers, ["conv1.1.running_mean", "conv1.1.running_var", "conv2.1.running_mean", "conv2.1.running_var"]);
        let net = made("mlp", json!({"hidden": [16]}), (1, 12, 12), 5).expect("fits");
        assert_eq!(names(&net), "fc1.weight fc1.bias fc.weight fc.bias");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let fault = |kind: &str, params, shape| made(kind, params, shape, 10).expect_err("does not fit").to_string();
        assert!(fault("cnn", json!({}), (1, 8, 8)).contains("too small for a kernel of 5"), "{}", fault("cnn", json!({}), (1, 8, 8)));
        assert!(fault("cnn", json!({"kernal": 3}), (1, 28, 28)).contains("no parameter `kernal`"));
        assert!(fault("cnn", json!({"kernel": "x"}), (1, 28, 28)).contains("`kernel` of model `cnn` is \"x\""));
        assert!(fault("cnn", json!({"widths": [0]}), (1, 28, 28)).contains("must be at least 1"));
        assert!(fault("cnn", json!({"norm": "layer"}), (1, 28, 28)).contains("none"));
        assert!(fault("cmm", json!({}), (1, 28, 28)).contains("no model `cmm`"));
        let huge = json!({"widths": [65536, 65536], "kernel": 65536, "padding": 65536});
        assert!(fault("cnn", huge, (1, 28, 28)).contains("more than 2^31"));
        assert!(made("logistic", json!({}), (1, 2, 2), 0).is_err());
    }
}
