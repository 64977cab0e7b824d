//! The model families: what a pipeline may name, and the network that each name builds.
//!
//! A family is one file here and one line in `FAMILIES`. Weights are not here; the engine initialises them.

mod cnn;
mod logistic;
mod mlp;
mod texts;

use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::engine::{Activation, Layer, Network, Shape};
use crate::spec::catalog::{Type, Variant};
use serde_json::{Map, Value};

/// The largest size that fits the memory of any machine, so that products of a few do not overflow.
const MOST: i64 = 65_536;
/// A number of channels, rows or units.
const SIZES: Type = Type::Int { min: 1, max: MOST };

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
}

/// Every family, in the order in which help lists them.
const FAMILIES: [Family; 10] = [
    Family { variant: cnn::variant, build: cnn::build },
    Family { variant: mlp::variant, build: mlp::build },
    Family { variant: logistic::variant, build: logistic::build },
    Family { variant: texts::fasttext::variant, build: texts::fasttext::build },
    Family { variant: texts::textcnn::variant, build: texts::textcnn::build },
    Family { variant: texts::lstm::variant, build: texts::lstm::build },
    Family { variant: texts::bilstm::variant, build: texts::bilstm::build },
    Family { variant: texts::transformer::variant, build: texts::transformer::build },
    Family { variant: texts::rnn::variant, build: texts::rnn::build },
    Family { variant: texts::rnn::variant_words, build: texts::rnn::build_words },
];

/// The families with their parameters.
#[must_use]
pub fn registry() -> Vec<Variant> {
    FAMILIES.iter().map(|family| (family.variant)()).collect()
}

/// The families that begin with an embedding of words or characters; the others would take the numbers of words for measurements.
#[must_use]
pub fn of_texts(kind: &str) -> bool {
    texts::NAMES.contains(&kind)
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
