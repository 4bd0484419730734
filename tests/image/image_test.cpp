// Pictures from files. The encoders are libjpeg's and libpng's own; what is wrong is made by hand.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/machine/memory.h>
#include <cdt/image/folder.h>
#include <cdt/image/formats/generated.h>
#include <cdt/image/formats/idx.h>
#include <gmock/gmock.h>
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

#include "support/compare.h"
#include "support/temp_folder.h"

namespace cdt::image {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "was not refused";
}

/// Smooth in space, so that JPEG keeps it nearly.
uint8_t smooth(int64_t x, int64_t y, int64_t channel) {
  return static_cast<uint8_t>(128 + 60 * std::sin(0.11 * static_cast<double>(x + 2 * channel)) +
                              50 * std::cos(0.07 * static_cast<double>(y - channel)));
}

std::vector<uint8_t> smooth_pixels(int64_t width, int64_t height, int64_t channels) {
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) pixels.push_back(smooth(x, y, c));
    }
  }
  return pixels;
}

/// A first scan of grey, and one of a bit of a frequency each: so many bits of 63 frequencies.
std::vector<jpeg_scan_info> scans_of_single_bits(int bits) {
  std::vector<jpeg_scan_info> scans{{1, {0}, 0, 0, 0, 0}};
  for (int frequency = 1; frequency < 64; ++frequency) {
    for (int bit = bits - 1; bit >= 0; --bit) {
      scans.push_back({1, {0}, frequency, frequency, bit == bits - 1 ? 0 : bit + 1, bit});
    }
  }
  return scans;
}

std::string jpeg_of(int width, int height, int channels, J_COLOR_SPACE colours,
                    const std::vector<jpeg_scan_info>& scans = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = colours;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 98, TRUE);
  if (!scans.empty()) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  auto pixels = smooth_pixels(width, height, channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + info.next_scanline * static_cast<size_t>(width * channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return bytes;
}

std::string png_of(uint32_t width, uint32_t height, uint32_t format, const void* pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels, 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, nullptr);
  bytes.resize(size);
  return bytes;
}

/// A PNG whose header says so, with a right checksum, and nothing sound behind it.
std::string png_header(uint32_t width, uint32_t height) {
  std::string chunk = "IHDR";
  for (const uint32_t size : {width, height}) {
    for (int shift = 24; shift >= 0; shift -= 8) chunk += static_cast<char>(size >> shift);
  }
  chunk += std::string("\x08\x02\x00\x00\x00", 5);
  const auto sum = static_cast<uint32_t>(crc32(
      0, reinterpret_cast<const unsigned char*>(chunk.data()), static_cast<uInt>(chunk.size())));
  std::string bytes = std::string("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d", 12) + chunk;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(sum >> shift);
  return bytes + std::string("\x00\x00\x00\x10IDAT", 8) + std::string(20, 'x');
}

double largest_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  double largest = a.size() == b.size() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

TEST(Picture, JpegsComeInColourAndGrey) {
  const Picture colour = decode(jpeg_of(40, 30, 3, JCS_RGB), "a.jpg");
  EXPECT_EQ(colour.width, 40);
  EXPECT_EQ(colour.height, 30);
  // Colour is stored at half the resolution, and rounds.
  EXPECT_LE(largest_difference(colour.pixels, smooth_pixels(40, 30, 3)), 12);
  const Picture grey = decode(jpeg_of(40, 30, 1, JCS_GRAYSCALE), "b.jpg", 1);
  EXPECT_LE(largest_difference(grey.pixels, smooth_pixels(40, 30, 1)), 3);
  const Picture both = decode(jpeg_of(40, 30, 1, JCS_GRAYSCALE), "b.jpg", 3);
  ASSERT_EQ(both.pixels.size(), 3 * grey.pixels.size());
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(both.pixels[3 * i + c], grey.pixels[i]);
  }
}

TEST(Picture, PngsComeInEveryFlavour) {
  const auto pixels = smooth_pixels(20, 10, 3);
  const std::string plain = png_of(20, 10, PNG_FORMAT_RGB, pixels.data());
  EXPECT_EQ(decode(plain, "a.png").pixels, pixels);
  const auto grey = smooth_pixels(20, 10, 1);
  EXPECT_EQ(decode(png_of(20, 10, PNG_FORMAT_GRAY, grey.data()), "g.png", 1).pixels, grey);
  // Nothing, laid over white, is white; what covers it all is itself.
  const std::vector<uint8_t> clear{10, 20, 30, 0, 40, 50, 60, 255};
  EXPECT_EQ(decode(png_of(2, 1, PNG_FORMAT_RGBA, clear.data()), "c.png").pixels,
            (std::vector<uint8_t>{255, 255, 255, 40, 50, 60}));
  const std::vector<uint16_t> deep(4, 65535);
  EXPECT_EQ(decode(png_of(2, 2, PNG_FORMAT_LINEAR_Y, deep.data()), "d.png", 1).pixels,
            (std::vector<uint8_t>(4, 255)));
}

TEST(Picture, WhatIsNoPictureIsRefusedByName) {
  EXPECT_THAT(refusal([] { decode("", "e.jpg"); }),
              HasSubstr("e.jpg: expected a picture, but the"));
  EXPECT_THAT(refusal([] { decode("GIF89a...", "x.jpg"); }),
              HasSubstr("x.jpg: expected a JPEG or"));
  const auto in_scans = [](int bits) {
    return jpeg_of(40, 30, 1, JCS_GRAYSCALE, scans_of_single_bits(bits));
  };
  EXPECT_EQ(decode(in_scans(7), "s.jpg", 1).pixels,  // 442
            decode(jpeg_of(40, 30, 1, JCS_GRAYSCALE), "b.jpg", 1).pixels);
  EXPECT_THAT(refusal([&] { decode(in_scans(8), "s.jpg"); }),
              HasSubstr("but it has more than 500 scans"));
  EXPECT_THAT(refusal([] { decode(jpeg_of(8, 8, 4, JCS_CMYK), "p.jpg"); }), HasSubstr("CMYK"));
  const std::string jpeg = jpeg_of(64, 64, 3, JCS_RGB);
  const auto pixels = smooth_pixels(64, 64, 3);
  const std::string png = png_of(64, 64, PNG_FORMAT_RGB, pixels.data());
  for (const std::string& whole : {jpeg, png}) {
    for (const size_t left :
         {size_t{4}, size_t{20}, whole.size() / 3, whole.size() / 2, whole.size() - 40}) {
      EXPECT_THAT(refusal([&] { decode(whole.substr(0, left), "cut"); }),
                  HasSubstr("cut: expected a"))
          << left << " of " << whole.size();
    }
  }
}

TEST(Picture, BombsAreRefusedBeforeTheyAllocate) {
  EXPECT_THAT(refusal([] { decode(png_header(60000, 60000), "bomb.png"); }),
              HasSubstr("bomb.png: expected at most 100 megapixels"));
  EXPECT_THAT(refusal([] { decode(png_header(2000000000, 2), "flat.png"); }),
              HasSubstr("flat.png: expected"));
  std::string jpeg = jpeg_of(16, 16, 3, JCS_RGB);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT(refusal([&] { decode(jpeg, "bomb.jpg"); }),
              HasSubstr("bomb.jpg: expected at most 100 megapixels"));
}

/// The weighted mean that antialiasing is, by its definition: a triangle as wide as the larger of
/// two pixels, old and new.
double antialiased(const std::vector<uint8_t>& line, int64_t to, int64_t place) {
  const auto from = static_cast<double>(line.size());
  const double ratio = from / static_cast<double>(to);
  const double reach = std::max(1.0, ratio);
  const double centre = (static_cast<double>(place) + 0.5) * ratio;
  double sum = 0, weights = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const double weight =
        std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - centre) / reach);
    sum += weight * line[i];
    weights += weight;
  }
  return sum / weights / 255;
}

TEST(Picture, IsResizedWithAntialiasing) {
  Picture line{23, 1, 1, {}};
  for (int i = 0; i < 23; ++i) line.pixels.push_back(static_cast<uint8_t>((i * 97) % 256));
  for (const int64_t width : {5, 11, 23, 40}) {
    const torch::Tensor resized = to_tensor(line, 1, width);
    ASSERT_EQ(resized.sizes(), (c10::IntArrayRef{1, 1, width}));
    for (int64_t i = 0; i < width; ++i) {
      // Sums of some ten float32 products.
      EXPECT_NEAR(resized[0][0][i].item<double>(), antialiased(line.pixels, width, i), 1e-6);
    }
  }
  const Picture colour{2, 2, 3,
                       std::vector<uint8_t>{255, 0, 51, 255, 0, 51, 255, 0, 51, 255, 0, 51}};
  const torch::Tensor flat = to_tensor(colour, 7, 5);
  for (int64_t c = 0; c < 3; ++c) {
    const double value = c == 0 ? 1 : c == 1 ? 0 : 0.2;
    EXPECT_LE((flat[c] - value).abs().max().item<double>(), 1e-6);
  }
  EXPECT_THAT(refusal([&] { to_tensor(line, 0, 5); }), HasSubstr("0 × 5"));
}

class Folders : public testing::Test {
 protected:
  void SetUp() override {
    const auto write = [&](const std::string& name, const std::string& bytes) {
      make_folders((folder_ / name).parent_path());
      write_file_atomically(folder_ / name, {bytes});
    };
    const auto pixels = smooth_pixels(30, 20, 3);
    for (int i = 0; i < 4; ++i) {
      write("set/dog/" + std::to_string(i) + ".png",
            png_of(30 - static_cast<uint32_t>(i), 20, PNG_FORMAT_RGB, pixels.data()));
      write("set/cat/" + std::to_string(i) + ".jpg", jpeg_of(24 + i, 18, 3, JCS_RGB));
    }
    write("set/cat/.hidden", "x");
    write("set/notes.txt", "beside the classes");
    options_.height = options_.width = 12;
  }

  test::TempFolder folder_;
  LoadOptions options_;
};

TEST_F(Folders, AreClassesAndTheirFiles) {
  const ImageFolder found = list_images(folder_ / "set");
  EXPECT_EQ(found.classes, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(found.files.size(), 8U);
  const LoadedImages loaded = load_images(found, {6, 0, 6}, options_);
  EXPECT_EQ(loaded.x.sizes(), (c10::IntArrayRef{3, 3, 12, 12}));
  EXPECT_TRUE(loaded.x[0].equal(loaded.x[2]));
  EXPECT_FALSE(loaded.x[0].equal(loaded.x[1]));
  EXPECT_TRUE(loaded.y.equal(torch::tensor({{0.0, 1.0}, {1.0, 0.0}, {0.0, 1.0}}, torch::kFloat64)));
  // The same whatever the number of threads.
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const torch::Tensor one = load_images(found, all, options_).x;
  at::set_num_threads(4);
  const torch::Tensor four = load_images(found, all, options_).x;
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(four));
}

TEST_F(Folders, SeveralThreadsDecodeWhatOneDoes) {
  const ImageFolder found = list_images(folder_ / "set");
  const std::vector<int64_t> rows{7, 0, 3, 5, 1, 6, 2, 4};
  const int before = at::get_num_threads();
  const LoadedImages one = load_images(found, rows, options_);
  at::set_num_threads(3);
  std::vector<int64_t> seen;
  options_.progress = [&](int64_t done, int64_t total) {
    seen.push_back(done);
    EXPECT_EQ(total, 8);
  };
  const LoadedImages several = load_images(found, rows, options_);
  EXPECT_TRUE(several.x.equal(one.x));
  EXPECT_TRUE(several.y.equal(one.y));
  EXPECT_THAT(seen, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  options_.progress = [](int64_t, int64_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(load_images(found, rows, options_), std::runtime_error);
  at::set_num_threads(before);
}

TEST_F(Folders, ForeignFilesAreNamedOrSkipped) {
  write_file_atomically(folder_ / "set/dog/readme.md", {"no picture"});
  const ImageFolder found = list_images(folder_ / "set");
  const std::vector<int64_t> rows{0, 8, 1};
  ASSERT_EQ(found.files[8].path.filename(), "readme.md");
  EXPECT_THAT(refusal([&] { load_images(found, rows, options_); }),
              HasSubstr("readme.md: expected"));
  options_.skip_bad = true;
  const LoadedImages loaded = load_images(found, rows, options_);
  EXPECT_EQ(loaded.rows, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(loaded.y.size(0), 2);
  ASSERT_EQ(loaded.skipped.size(), 1U);
  EXPECT_THAT(loaded.skipped[0].reason, HasSubstr("readme.md"));
  EXPECT_EQ(load_images(found, {8}, options_).x.size(0), 0);
}

TEST_F(Folders, SaysWhatIsMissing) {
  EXPECT_THAT(refusal([&] { list_images(folder_ / "no"); }), HasSubstr("a folder of pictures"));
  EXPECT_THAT(refusal([&] { list_images(folder_ / "set/cat"); }), HasSubstr("it has no folders"));
  make_folders(folder_ / "set/empty");
  EXPECT_THAT(refusal([&] { list_images(folder_ / "set"); }),
              HasSubstr("empty: expected pictures"));
  EXPECT_THAT(refusal([&] {
                load_images({folder_.path(), {"a"}, {}}, {0}, options_);
              }),
              HasSubstr("has 0 pictures"));
}

TEST_F(Folders, TheCacheHoldsWhileFilesStayAsTheyAre) {
  options_.cache = folder_ / "cache";
  const ImageFolder found = list_images(folder_ / "set");
  const LoadedImages first = load_images(found, {0, 5}, options_);
  EXPECT_FALSE(first.cached);
  const LoadedImages second = load_images(found, {0, 5}, options_);
  EXPECT_TRUE(second.cached);
  EXPECT_TRUE(second.x.equal(first.x));
  EXPECT_TRUE(second.y.equal(first.y));
  options_.height = 13;
  EXPECT_FALSE(load_images(found, {0, 5}, options_).cached);
  options_.height = 12;
  const auto file = found.files[5].path;
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) + std::chrono::seconds(3));
  EXPECT_FALSE(load_images(found, {0, 5}, options_).cached);
  // A cache that is damaged is as good as none.
  for (const auto& entry : std::filesystem::directory_iterator(options_.cache)) {
    write_file_atomically(entry.path(), {"damaged"});
  }
  const LoadedImages again = load_images(found, {0, 5}, options_);
  EXPECT_FALSE(again.cached);
  EXPECT_TRUE(again.x.equal(first.x));
}

TEST_F(Folders, FilesWithoutClassesAreListedByThemselves) {
  const ImageFolder flat = list_unlabelled(folder_ / "set/cat");
  EXPECT_TRUE(flat.classes.empty());
  EXPECT_EQ(flat.files.size(), list_images(folder_ / "set").files.size() / 2);
  const LoadedImages loaded = load_images(flat, {0}, options_);
  EXPECT_EQ(loaded.x.size(0), 1);
  EXPECT_FALSE(loaded.y.defined());
  const ImageFolder one = list_unlabelled(flat.files[1].path);
  ASSERT_EQ(one.files.size(), 1U);
  EXPECT_EQ(one.files[0].path, flat.files[1].path);
  make_folders(folder_ / "none");
  EXPECT_THAT(refusal([&] { list_unlabelled(folder_ / "none"); }), HasSubstr("it has no files"));
  EXPECT_THAT(refusal([&] { list_unlabelled(folder_ / "no"); }), HasSubstr("expected a picture"));
}

TEST(Generated, TheSameSeedGivesTheSamePicturesAndAPngReadsBack) {
  const GeneratedPictures made = make_pictures(6, 3, 24);
  const GeneratedPictures longer = make_pictures(8, 3, 24);
  ASSERT_EQ(made.pictures.size(), 6U);
  EXPECT_EQ(made.labels, (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(made.pictures[i].pixels, longer.pictures[i].pixels) << i;
    const Picture back = decode(encode_png(made.pictures[i]), "made.png");
    EXPECT_EQ(back.width, 24);
    EXPECT_EQ(back.pixels, made.pictures[i].pixels) << i;
  }
  EXPECT_NE(make_pictures(1, 4, 24).pictures[0].pixels, made.pictures[0].pixels);
  EXPECT_THAT(refusal([] { make_pictures(0, 1, 24); }), HasSubstr("1 to 1000000"));
  EXPECT_THAT(refusal([] { make_pictures(1, 1, 7); }), HasSubstr("8 to 4096"));
  EXPECT_THAT(refusal([] { encode_png({2, 2, 3, {1, 2}}); }), HasSubstr("12 bytes"));
}

std::string idx_of(const std::vector<uint32_t>& shape, size_t count, char kind = 8) {
  std::string bytes{0, 0, kind, static_cast<char>(shape.size())};
  for (const uint32_t size : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 251);
  return bytes;
}

std::string gzipped(const std::string& bytes) {
  const test::TempFolder folder;
  const auto path = folder / "a.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned int>(bytes.size()));
  gzclose(file);
  return read_file(path);
}

TEST(Idx, HoldsBytesOfAShape) {
  const std::string bytes = idx_of({2, 3, 4}, 24);
  const torch::Tensor values = parse_idx(bytes, "d.idx");
  EXPECT_EQ(values.sizes(), (c10::IntArrayRef{2, 3, 4}));
  EXPECT_EQ(values[1][2][3].item<int>(), 23);
  EXPECT_TRUE(parse_idx(gzipped(bytes), "d.idx.gz").equal(values));
  const std::string large = idx_of({300, 1000}, 300'000);
  EXPECT_TRUE(parse_idx(gzipped(large), "d.idx.gz").equal(parse_idx(large, "d.idx")));
  const test::TempFolder folder;
  write_file_atomically(folder / "d.idx", {bytes});
  EXPECT_TRUE(read_idx(folder / "d.idx").equal(values));
}

TEST(Idx, HeadersThatLieAreRefused) {
  for (const auto& lie : std::vector<std::pair<std::string, std::string>>{
           {"", "two zero bytes"},
           {"PK..", "two zero bytes"},
           {idx_of({3}, 3, 0x0d), "unsigned bytes"},
           {idx_of({}, 0), "1 to 8 dimensions"},
           {idx_of({3}, 3).substr(0, 6), "ends within its header"},
           {idx_of({3}, 2), "says 3 bytes, but there are 2"},
           {idx_of({3}, 4), "says 3 bytes, but there are 4"},
           {idx_of({0}, 0), "the size 0"},
           {idx_of({4000000000U, 4000000000U, 4000000000U}, 0), "4 GiB"},
           {gzipped(idx_of({30}, 30)).substr(0, 25), "cut short"},
           {gzipped(idx_of({100}, 99)), "says 100 bytes, but there are 99"},
           {gzipped(idx_of({3}, 4)), "says 3 bytes, but there are more"},
           {gzipped(idx_of({100}, 101)), "says 100 bytes, but there are more"},
           {gzipped(idx_of({65535, 65535}, 100)), "says 4294836225 bytes, but there are fewer"},
           {gzipped(gzipped(idx_of({3}, 3))), "gzipped twice"}}) {
    EXPECT_THAT(refusal([&] { parse_idx(lie.first, "d.idx"); }), HasSubstr(lie.second));
  }
}

TEST(Idx, GzipFilesMayComeInSeveralMembers) {
  const std::string bytes = idx_of({5, 100}, 500);
  const torch::Tensor values = parse_idx(bytes, "d.idx");
  const std::string both = gzipped(bytes.substr(0, 7)) + gzipped(bytes.substr(7));
  EXPECT_TRUE(parse_idx(both, "d.idx.gz").equal(values));
  EXPECT_TRUE(parse_idx(both + std::string(512, '\0'), "d.idx.gz").equal(values));
  EXPECT_THAT(refusal([&] { parse_idx(both + "x", "d.idx.gz"); }), HasSubstr("cut short"));
}

/// Files of a few hundred kilobytes that stand for a quarter of a gigabyte.
TEST(Idx, MemoryIsThatOfWhatIsRead) {
  constexpr uint32_t kRows = 320'000, kSide = 28;
  const test::TempFolder folder;
  const auto packed = folder / "d.idx.gz", plain = folder / "d.idx";
  const std::string header = idx_of({kRows, kSide, kSide}, 0);
  const std::string rows(size_t{1000} * kSide * kSide, '\7');
  gzFile file = gzopen(packed.c_str(), "wb");
  gzwrite(file, header.data(), static_cast<unsigned int>(header.size()));
  for (uint32_t i = 0; i < kRows / 1000; ++i) {
    gzwrite(file, rows.data(), static_cast<unsigned int>(rows.size()));
  }
  gzclose(file);
  {
    std::ofstream out(plain, std::ios::binary);
    for (out << header; out.tellp() < 25'000'000; out << rows) continue;
  }
  std::filesystem::resize_file(plain, header.size() + size_t{kRows} * kSide * kSide);  // sparse
  constexpr size_t kSize = size_t{kSide} * kSide;
  const int64_t before = peak_memory();
  for (const auto& path : {packed, plain}) {
    IdxReader reader(path);
    std::string row(kSize, '\0');
    for (const size_t wanted : {3U, 30'000U, 30'001U, 300'000U}) {
      reader.skip(wanted * kSize - reader.place());
      reader.read(row.data(), kSize);
      EXPECT_EQ(row, std::string(kSize, path == plain && wanted > 100'000 ? '\0' : '\7'));
    }
    reader.rewind();
    EXPECT_EQ(reader.place(), 0U);
    reader.read(row.data(), kSize);
    EXPECT_EQ(row, std::string(kSize, '\7'));
  }
  EXPECT_LT(peak_memory() - before, 50'000'000);
}

}  // namespace
}  // namespace cdt::image
