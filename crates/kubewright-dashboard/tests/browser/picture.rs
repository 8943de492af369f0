//! Comparison of screenshots with committed references, computed in the browser.
//!
//! Fonts and their smoothing differ between machines. Pictures are therefore compared block by
//! block: a block differs if its mean colour does. A page that lacks a panel, its style or its
//! content differs in far more blocks than text in another font.

use std::path::{Path, PathBuf};

use kubewright_core::ByteString;
use serde_json::json;

use crate::driver::Browser;

/// The share of blocks that may differ.
pub const TOLERANCE: f64 = 0.06;

/// Computes the share of blocks of 8 by 8 pixels whose mean colour differs by more than a tenth.
const COMPARE: &str = r"
const [one, other, done] = arguments;
const load = (base64) => new Promise((resolve, reject) => {
  const image = new Image();
  image.onload = () => resolve(image);
  image.onerror = () => reject(new Error('no picture'));
  image.src = `data:image/png;base64,${base64}`;
});
const blocks = (image, width, height) => {
  const canvas = document.createElement('canvas');
  canvas.width = image.width; canvas.height = image.height;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  const sums = new Float64Array(Math.ceil(width / 8) * Math.ceil(height / 8) * 3);
  const columns = Math.ceil(width / 8);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++)
    for (let c = 0; c < 3; c++)
      sums[((y >> 3) * columns + (x >> 3)) * 3 + c] += pixels[(y * image.width + x) * 4 + c] / 64;
  return sums;
};
Promise.all([load(one), load(other)]).then(([a, b]) => {
  if (a.width !== b.width || a.height !== b.height) return done(1);
  const [first, second] = [blocks(a, a.width, a.height), blocks(b, a.width, a.height)];
  let different = 0;
  for (let block = 0; block < first.length; block += 3)
    if ([0, 1, 2].some((c) => Math.abs(first[block + c] - second[block + c]) > 25)) different += 1;
  done(different / (first.length / 3));
}).catch((error) => done(String(error)));";

/// The folder of the references, which are the pictures of the book.
fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/src/images/{name}.png"))
}

/// Asserts that a screenshot looks like the reference of this name, in another tab of the browser.
///
/// With `KUBEWRIGHT_WRITE_REFERENCES=1` it writes the reference instead.
pub async fn looks_like(browser: &Browser, screenshot: &str, name: &str) {
    let file = reference(name);
    if std::env::var_os("KUBEWRIGHT_WRITE_REFERENCES").is_some() {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        let bytes = ByteString::from_base64(screenshot.as_bytes()).expect("base64");
        std::fs::write(&file, &*bytes).expect("a file");
        return;
    }
    let share = difference(browser, screenshot, name).await;
    if share > TOLERANCE {
        let folder = std::env::temp_dir().join(format!("{name}-differs.png"));
        let bytes = ByteString::from_base64(screenshot.as_bytes()).expect("base64");
        std::fs::write(&folder, &*bytes).expect("a file");
        panic!(
            "{share:.3} of the blocks differ from {}; the page is in {}. If it is as wanted, run the test with \
             KUBEWRIGHT_WRITE_REFERENCES=1",
            file.display(),
            folder.display()
        );
    }
}

/// The share of blocks that differ from the reference of this name.
pub async fn difference(browser: &Browser, screenshot: &str, name: &str) -> f64 {
    let bytes = std::fs::read(reference(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let wanted = ByteString::from(bytes).to_base64();
    // The policy of the page does not allow pictures from elsewhere.
    let share = browser.in_blank_tab(COMPARE, json!([screenshot, wanted])).await;
    share.as_f64().unwrap_or_else(|| panic!("{name}: {share}"))
}
