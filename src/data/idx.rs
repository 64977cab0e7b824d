//! The IDX format of MNIST and its kin: big-endian header, then bytes; four files, with or without gzip.
//!
//! It does not know what the pictures show. Format: magic 0x00000803 (bytes, 3 dimensions) with n, height, width for images,
//! 0x00000801 with n for labels.

use super::Shape;
use super::dataset::{Bytes, Dataset, Origin, Samples, Scaling};
use super::files::{self, GREATEST, Published, Source};
use super::parts::{HEADER, with_header};
use crate::base::{Fault, Outcome};
use std::path::{Path, PathBuf};

const IMAGES: u32 = 0x0803;
const LABELS: u32 = 0x0801;

/// The names of the four files, without `.gz`: training images and labels, test images and labels.
pub(super) const NAMES: [&str; 4] =
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

/// A data set of four IDX files.
#[derive(Clone, Copy)]
pub(super) struct Family {
    pub name: &'static str,
    /// Subfolders in which the files usually lie, the preferred one first.
    pub subfolders: &'static [&'static str],
    /// Checksums in the order of [`NAMES`].
    pub published: &'static [Published; 4],
    pub source: &'static str,
    pub license: &'static str,
}

/// MNIST.
pub(super) const MNIST: Family = Family {
    name: "mnist",
    subfolders: &["MNIST", "MNIST/raw", "mnist"],
    published: &[
        Published {
            name: NAMES[0],
            packed: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            plain: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            size: 47_040_016,
        },
        Published {
            name: NAMES[1],
            packed: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            plain: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            size: 60_008,
        },
        Published {
            name: NAMES[2],
            packed: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            plain: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            size: 7_840_016,
        },
        Published {
            name: NAMES[3],
            packed: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            plain: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            size: 10_008,
        },
    ],
    source: "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to document recognition, \
             Proc. IEEE 86(11), 1998",
    license: "no formal license; commonly given as CC BY-SA 3.0",
};

/// Fashion-MNIST.
pub(super) const FASHION: Family = Family {
    name: "fashion-mnist",
    subfolders: &["FashionMNIST", "FashionMNIST/raw", "fashion-mnist", "fashion"],
    published: &[
        Published {
            name: NAMES[0],
            packed: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            plain: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            size: 47_040_016,
        },
        Published {
            name: NAMES[1],
            packed: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            plain: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            size: 60_008,
        },
        Published {
            name: NAMES[2],
            packed: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            plain: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            size: 7_840_016,
        },
        Published {
            name: NAMES[3],
            packed: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            plain: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            size: 10_008,
        },
    ],
    source: "H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms, \
             arXiv:1708.07747, 2017",
    license: "MIT",
};

/// What a loader of IDX files is asked for.
pub(super) struct Request {
    /// Compare with the published checksums.
    pub verify: bool,
    /// The number of classes, or else the highest label and one.
    pub classes: Option<usize>,
    /// Keep the first samples only.
    pub limit: Option<usize>,
}

/// Loads a known data set.
///
/// # Errors
/// A storage fault when a file is missing, damaged, or not what its name says.
pub(super) fn load(family: &Family, dirs: &[PathBuf], request: &Request) -> Outcome<Dataset> {
    let sources = find(&files::folders(dirs, family.subfolders))?
        .ok_or_else(|| files::missing(family.name, &wanted(), family.subfolders[0], dirs))?;
    let known: &[Published] = if request.verify { family.published } else { &[] };
    let origin = Origin { source: family.source.into(), license: family.license.into() };
    read(family.name, &sources, known, origin, request)
}

/// Loads the four files in one folder, with nothing known about them.
///
/// # Errors
/// As [`load`].
pub(super) fn load_own(name: &str, folder: &str, dirs: &[PathBuf], request: &Request) -> Outcome<Dataset> {
    let folders: Vec<PathBuf> = dirs.iter().map(|dir| dir.join(folder)).collect();
    let sources = find(&folders)?.ok_or_else(|| files::missing(name, &wanted(), folder, dirs))?;
    read(name, &sources, &[], Origin::default(), request)
}

fn wanted() -> String {
    let [a, b, c, d] = NAMES;
    format!("`{a}.gz`, `{b}.gz`, `{c}.gz` and `{d}.gz` (or the same unpacked)")
}

/// The four files in the first folder that holds any of them.
fn find(folders: &[PathBuf]) -> Outcome<Option<Vec<Source>>> {
    for folder in folders {
        let found = NAMES.iter().map(|name| Source::plain_or_packed(folder, name)).collect::<Outcome<Vec<_>>>()?;
        if found.iter().any(Option::is_some) {
            let gone: Vec<&str> = NAMES.iter().zip(&found).filter(|(_, f)| f.is_none()).map(|(name, _)| *name).collect();
            return match found.into_iter().collect() {
                Some(sources) => Ok(Some(sources)),
                None => Err(incomplete(folder, &gone)),
            };
        }
    }
    Ok(None)
}

fn incomplete(folder: &Path, gone: &[&str]) -> Fault {
    let names = crate::base::text::quoted(gone.iter().copied());
    Fault::storage(format!("`{}` lacks {names}", folder.display())).help("put the missing files there, packed with gzip or not")
}

/// What is compared with the published file: the size as soon as it is known, then the content.
enum Part<'a> {
    Size(u64),
    Content(&'a [&'a [u8]]),
}

struct Images {
    count: u64,
    height: u64,
    width: u64,
}

fn read(name: &str, sources: &[Source], known: &[Published], origin: Origin, request: &Request) -> Outcome<Dataset> {
    let [train_images, train_labels, test_images, test_labels] = sources else {
        return Err(Fault::internal("a data set of IDX files has four files"));
    };
    let check = |at: usize, part: Part<'_>| {
        let Some(file) = known.get(at) else { return Ok(()) };
        match part {
            Part::Size(size) => sources[at].verify_size(size, file, known),
            Part::Content(content) => sources[at].verify(content, file, known),
        }
    };
    let mut bytes = with_header(0, 0);
    let mut labels = Vec::new();
    let train = images(train_images, None, &mut bytes, |part| check(0, part))?;
    let train_count = labels_of(train_labels, &mut labels, |part| check(1, part))?;
    let test = images(test_images, Some(&train), &mut bytes, |part| check(2, part))?;
    let test_count = labels_of(test_labels, &mut labels, |part| check(3, part))?;
    for (source, images, other, count) in
        [(train_images, train.count, train_labels, train_count), (test_images, test.count, test_labels, test_count)]
    {
        if images != count {
            let fault = source.fault(format_args!("holds {images} images, but `{}` holds {count} labels", other.path.display()));
            let crossed = train.count == test_count && test.count == train_count;
            return Err(if crossed { fault.help("the files of the training and the test set are swapped") } else { fault });
        }
    }
    let shape = Shape { channels: 1, height: train.height as usize, width: train.width as usize };
    let total = labels.len();
    let kept = request.limit.unwrap_or(total);
    if kept > total {
        return Err(Fault::stage(format!("`limit` is {kept}, but data set `{name}` has {total} samples")));
    }
    bytes.truncate(HEADER + kept * shape.numel());
    labels.truncate(kept);
    let classes = request.classes.unwrap_or_else(|| labels.iter().max().map_or(1, |&most| most as usize + 1));
    let head = with_header(kept, shape.numel());
    bytes[..HEADER].copy_from_slice(&head[..HEADER]);
    let samples = Samples::bytes(Bytes::new(bytes, HEADER), Scaling::symmetric(255));
    Dataset::new(name, shape, classes, samples, labels, kept.min(train_count as usize), origin)
}

/// Appends the images of a file to `out`.
fn images(source: &Source, like: Option<&Images>, out: &mut Vec<u8>, check: impl Fn(Part<'_>) -> Outcome<()>) -> Outcome<Images> {
    let mut reader = source.open()?;
    let mut head = Vec::with_capacity(16);
    reader.exactly(4, &mut head, "its header")?;
    expect_magic(source, &head, IMAGES)?;
    reader.exactly(12, &mut head, "its header")?;
    let number = |at: usize| u64::from(u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let found = Images { count: number(4), height: number(8), width: number(12) };
    if found.count == 0 || found.height == 0 || found.width == 0 {
        return Err(source.fault(format_args!("holds no pixels: {} images of {} x {}", found.count, found.height, found.width)));
    }
    if let Some(like) = like.filter(|like| (like.height, like.width) != (found.height, found.width)) {
        return Err(source.fault(format_args!(
            "holds images of {} x {}, but the training images are {} x {}",
            found.height, found.width, like.height, like.width
        )));
    }
    let size = found.count.checked_mul(found.height * found.width).filter(|size| *size <= GREATEST);
    let size = size.ok_or_else(|| {
        source.fault(format_args!("promises {} images of {} x {}: more than 4 GiB", found.count, found.height, found.width))
    })?;
    check(Part::Size(16 + size))?;
    let from = out.len();
    reader.exactly(size, out, "pixels")?;
    reader.ended()?;
    check(Part::Content(&[&head, &out[from..]]))?;
    Ok(found)
}

/// Appends the labels of a file to `out` and returns their number.
fn labels_of(source: &Source, out: &mut Vec<u32>, check: impl Fn(Part<'_>) -> Outcome<()>) -> Outcome<u64> {
    let mut reader = source.open()?;
    let mut content = Vec::new();
    reader.exactly(4, &mut content, "its header")?;
    expect_magic(source, &content, LABELS)?;
    reader.exactly(4, &mut content, "its header")?;
    let count = u64::from(u32::from_be_bytes([content[4], content[5], content[6], content[7]]));
    check(Part::Size(8 + count))?;
    reader.exactly(count, &mut content, "labels")?;
    reader.ended()?;
    check(Part::Content(&[&content]))?;
    out.extend(content[8..].iter().map(|&label| u32::from(label)));
    Ok(count)
}

fn expect_magic(source: &Source, head: &[u8], wanted: u32) -> Outcome<()> {
    let found = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    if found == wanted {
        return Ok(());
    }
    let name = |magic| if magic == IMAGES { "images" } else { "labels" };
    if found == IMAGES || found == LABELS {
        let what = format!("holds {} where {} belong", name(found), name(wanted));
        return Err(source.fault(what).help("the files of images and labels are swapped; give them their names back"));
    }
    let packed = head.starts_with(&[0x1f, 0x8b]);
    let fault = source.fault(format_args!("is no IDX file of {}: expected magic {wanted:#010x}, found {found:#010x}", name(wanted)));
    Err(if packed { fault.help("it is packed with gzip: add `.gz` to its name") } else { fault.help("fetch the file again") })
}
