//! Residual networks: 18 and 34 layers as torchvision's, 10 as PFLlib's own, 56 as FedML's for small images; with batch or group
//! normalisation.

use super::{Fields, MOST, SIZES, unless};
use crate::base::{Fault, Outcome};
use crate::engine::{Entry, Init, Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant, When};
use crate::spec::rules::Breach;

pub(super) fn variant() -> Variant {
    Variant {
        name: "resnet",
        doc: "Blocks of convolutions whose input is added to their output, then the mean over all pixels and the head.",
        revision: 1,
        fields: vec![
            Field::with(
                "depth",
                Type::Int { min: 10, max: 56 },
                18,
                "Layers: 10, 18 or 34 with two 3x3 convolutions a block, or 56 with three a block and three stages, for small images.",
            )
            .from("", "PFLlib, FedML"),
            Field::optional(
                "width",
                SIZES,
                "Channels of the first stage; each later stage has twice as many. By default 64, of depth 56 16.",
            ),
            Field::with(
                "norm",
                Type::Choice(&[
                    ("batch", "batch normalisation"),
                    ("group", "normalisation of groups of channels in each sample, whose blocks are the identity at first, as in FedML"),
                ]),
                "batch",
                "Normalisation after every convolution.",
            ),
            Field::with(
                "group_channels",
                Type::Int { min: 1, max: MOST },
                32,
                "`norm: group` only: channels of a group, which have one weight and one bias together.",
            )
            .from("", "FedML")
            .read_with("norm", When::Is(&["group"])),
        ],
    }
}

/// How the networks of one depth differ from those of another.
struct Form {
    /// Blocks of each stage.
    blocks: &'static [usize],
    width: usize,
    /// Whether blocks have three convolutions, the last with four times the channels.
    bottleneck: bool,
    /// PFLlib's own names.
    own_names: bool,
}

fn form(depth: usize) -> Option<Form> {
    let (blocks, width): (&[usize], _) = match depth {
        10 => (&[1, 1, 1, 1], 64),
        18 => (&[2, 2, 2, 2], 64),
        34 => (&[3, 4, 6, 3], 64),
        56 => (&[6, 6, 6], 16),
        _ => return None,
    };
    Some(Form { blocks, width, bottleneck: depth == 56, own_names: depth == 10 })
}

/// The layers so far.
struct Builder {
    layers: Vec<Layer>,
    /// Channels of a group; nothing for batch normalisation.
    group: Option<usize>,
}

impl Builder {
    fn conv(&mut self, name: &str, out: usize, kernel: usize, stride: usize) {
        self.layers.push(Layer::plain_conv(name, out, kernel, stride, kernel / 2));
    }
    /// Groups divide the first width, so that they divide all others too: each is a multiple of it.
    fn norm(&mut self, name: &str, channels: usize) {
        self.layers.push(match self.group {
            None => Layer::norm2d(name),
            Some(group) => Layer::GroupNorm { name: name.to_owned(), groups: channels / group, shared: true, eps: 1e-5 },
        });
    }
    /// A block; `shape` says what changes: input channels, inner channels, stride.
    fn block(&mut self, form: &Form, name: &str, (inputs, width, stride): (usize, usize, usize)) -> usize {
        let (first, second) = if form.own_names { ("bn2", "bn3") } else { ("bn1", "bn2") };
        self.layers.push(Layer::save("in"));
        let out = if form.bottleneck {
            self.conv(&format!("{name}.conv1"), width, 1, 1);
            self.norm(&format!("{name}.bn1"), width);
            self.layers.push(Layer::Relu);
            self.conv(&format!("{name}.conv2"), width, 3, stride);
            self.norm(&format!("{name}.bn2"), width);
            self.layers.push(Layer::Relu);
            self.conv(&format!("{name}.conv3"), 4 * width, 1, 1);
            self.norm(&format!("{name}.bn3"), 4 * width);
            4 * width
        } else {
            self.conv(&format!("{name}.conv1"), width, 3, stride);
            self.norm(&format!("{name}.{first}"), width);
            self.layers.push(Layer::Relu);
            self.conv(&format!("{name}.conv2"), width, 3, 1);
            self.norm(&format!("{name}.{second}"), width);
            width
        };
        if stride == 1 && inputs == out {
            self.layers.push(Layer::plus("in"));
        } else {
            self.layers.extend([Layer::save("out"), Layer::load("in")]);
            self.conv(&format!("{name}.downsample.0"), out, 1, stride);
            self.norm(&format!("{name}.downsample.1"), out);
            self.layers.push(Layer::plus("out"));
        }
        self.layers.push(Layer::Relu);
        out
    }
}

/// The form and the channels of the first stage.
fn form_and_width(fields: &Fields<'_>) -> Outcome<(Form, usize)> {
    let form = form(fields.size("depth")?).ok_or_else(|| fields.fault("depth", "10, 18, 34 or 56"))?;
    let width = if fields.has("width") { fields.size("width")? } else { form.width };
    Ok((form, width))
}

pub(super) fn rules(fields: &Fields<'_>) -> Vec<Breach> {
    let (_, width) = match form_and_width(fields) {
        Ok(found) => found,
        Err(fault) => return vec![Breach::new("depth", fault)],
    };
    if width > MOST as usize / 32 {
        return vec![Breach::new("width", fields.fault("width", "at most 2,048"))];
    }
    let (norm, group) = (fields.word("norm").unwrap_or_default(), fields.size("group_channels").unwrap_or(1).max(1));
    unless(norm != "group" || width.is_multiple_of(group), "group_channels", || {
        Fault::stage(format!("{width} channels cannot be divided into groups of {group}"))
            .help("choose a `group_channels` that divides `width`")
    })
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let (form, width) = form_and_width(fields)?;
    let group = match fields.word("norm")?.as_str() {
        "batch" => None,
        "group" => Some(fields.size("group_channels")?.max(1)),
        _ => return Err(fields.fault("norm", "`batch` or `group`")),
    };
    let mut builder = Builder { layers: Vec::new(), group };
    if form.bottleneck {
        builder.conv("conv1", width, 3, 1);
    } else {
        builder.conv("conv1", width, 7, 2);
    }
    builder.norm("bn1", width);
    builder.layers.push(Layer::Relu);
    if !form.bottleneck {
        builder.layers.push(Layer::max_pool(3, 2, 1));
    }
    let mut channels = width;
    for (stage, &blocks) in form.blocks.iter().enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = if form.own_names { format!("layer_{stage}.{block}") } else { format!("layer{}.{block}", stage + 1) };
            channels = builder.block(&form, &name, (channels, width << stage, stride));
        }
    }
    builder.layers.extend([Layer::mean(), Layer::Flatten]);
    let mut layers = builder.layers;
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Ok(Network::build(shape, layers, head)?.with_init(|entry| init(entry, group.is_some())))
}

/// Convolutions are normal by their outputs. With group normalisation the last one of each block begins with 0.
fn init(entry: &Entry, group: bool) -> Option<Init> {
    match entry.shape[..] {
        [out, _, height, width] => Some(Init::fan_out(out * height * width)),
        _ if group && entry.name.starts_with("layer") && entry.name.ends_with(".bn2.weight") => Some(Init::Constant(0.0)),
        _ => None,
    }
}
