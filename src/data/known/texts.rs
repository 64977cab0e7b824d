//! Texts: news, reviews, plays.

use super::{NONE, file};
use crate::data::registry::{Entry, Trust};
use crate::data::remote::Sum;
use crate::data::{domains, leaf, text};

pub(super) const SHAKESPEARE: Entry = Entry {
    name: "shakespeare",
    doc: "Shakespeare: the next of 80 characters after 80 others, by speaking role; LEAF's json in `Shakespeare/`.",
    folders: &["Shakespeare", "shakespeare/data", "Shakespeare/data"],
    files: &[],
    members: &[],
    source: "S. Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097, 2018",
    license: "the text is in the public domain",
    note: "put LEAF's `all_data_niid_2_keep_0_train_9.json` and `..._test_9.json` there, or its `train/` and `test/`",
    trust: Trust::Files,
    fields: NONE,
    load: |r| leaf::load(r, &leaf::Known { what: "role", classes: Some(80), shape: None, symmetric: false }),
};

pub(super) const AG_NEWS: Entry = Entry {
    name: "ag-news",
    doc: "AG News: 127,600 news in 4 classes, 200 words each; `train.csv` and `test.csv` in `AGNews/`.",
    folders: &["AGNews", "ag_news_csv", "AG_NEWS"],
    files: &[
        file(
            "train.csv",
            "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/train.csv",
            29_470_338,
            Sum::Md5("b1a00f826fdfbd249f79597b59e1dc12"),
        ),
        file(
            "test.csv",
            "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/test.csv",
            1_857_427,
            Sum::Md5("d52ea96a97a2d943681189a97654912d"),
        ),
    ],
    members: &[],
    source: "X. Zhang, J. Zhao, Y. LeCun, Character-level convolutional networks for text classification, NIPS 2015; corpus: A. Gulli",
    license: "research and other non-commercial use",
    note: "",
    trust: Trust::Published,
    fields: text::news_fields,
    load: |r| text::news(r, 4, &[]),
};

pub(super) const SOGOU_NEWS: Entry = Entry {
    name: "sogou-news",
    doc: "Sogou News: 510,000 news in pinyin, 5 classes, 200 words each; `sogou_news_csv.tar.gz` or its files in `SogouNews/`.",
    folders: &["SogouNews", "SogouNews/sogou_news_csv", "sogou_news_csv"],
    files: &[file("sogou_news_csv.tar.gz", "", 0, Sum::Md5("0c1700ba70b73f964dd8de569d3fd03e"))],
    members: &[("train.csv", Sum::Md5("f36156164e6eac2feda0e30ad857eef0")), ("test.csv", Sum::Md5("59e493c41cee050329446d8c45615b38"))],
    source: "X. Zhang, J. Zhao, Y. LeCun, Character-level convolutional networks for text classification, NIPS 2015",
    license: "none stated",
    note: "https://drive.google.com/uc?id=0Bz8a_Dbh9QhbUkVqNEszd0pHaFE",
    trust: Trust::Published,
    fields: text::news_fields,
    load: |r| text::news(r, 5, &["sogou_news_csv.tar.gz"]),
};

pub(super) const AMAZON_REVIEW: Entry = Entry {
    name: "amazon-review",
    doc: "Amazon Review: 27,677 reviews as counts of 5,000 words, 2 classes, 4 domains; `amazon.npz` in `AmazonReview/`.",
    folders: &["AmazonReview", "amazon"],
    files: &[file("amazon.npz", "", 0, Sum::Unknown)],
    members: &[],
    source: "J. Blitzer, M. Dredze, F. Pereira, Biographies, Bollywood, boom-boxes and blenders, ACL 2007",
    license: "none stated; research",
    note: "https://drive.google.com/uc?id=1QbXFENNyqor1IlCpRRFtOluI2_hMEd1W holds it in `AmazonReview.zip`",
    trust: Trust::Files,
    fields: NONE,
    load: domains::amazon_review,
};

pub(super) const AMAZON_SENTENCES: Entry = Entry {
    name: "amazon-sentences",
    doc: "Amazon sentences of the UCI repository: 1,000 sentences of reviews, 2 classes; one file in `AmazonSentences/`.",
    folders: &["AmazonSentences", "sentiment labelled sentences"],
    files: &[file(
        "amazon_cells_labelled.txt",
        "",
        58_226,
        Sum::Sha256("47003fc0a0d4840b00e96e715b6189bad09e7443a3da41c4cbe12ffc79f86ae3"),
    )],
    members: &[],
    source: "D. Kotzias, Sentiment Labelled Sentences, UCI Machine Learning Repository, 2015, doi:10.24432/C57604",
    license: "CC BY 4.0",
    note: "https://archive.ics.uci.edu/dataset/331/sentiment+labelled+sentences",
    trust: Trust::Published,
    fields: text::sentences_fields,
    load: text::sentences,
};

pub(super) const TINY_SHAKESPEARE: Entry = Entry {
    name: "tiny-shakespeare",
    doc: "Tiny Shakespeare: the next character after 80 others, by speaker, from one text of 1.1 MB; `input.txt` in `TinyShakespeare/`.",
    folders: &["TinyShakespeare", "tinyshakespeare"],
    files: &[file(
        "input.txt",
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        1_115_394,
        Sum::Sha256("86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
    )],
    members: &[],
    source: "A. Karpathy, The unreasonable effectiveness of recurrent neural networks, 2015",
    license: "the text is in the public domain",
    note: "",
    trust: Trust::Published,
    fields: text::play_fields,
    load: text::play,
};
