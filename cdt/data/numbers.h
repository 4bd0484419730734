/// The numbers of a column: its own, or a view of an array elsewhere, such as a mapped file, which
/// it keeps alive.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace cdt::data {

class Numbers {
 public:
  class Iterator;
  using value_type = double;
  using const_iterator = Iterator;

  Numbers() = default;
  Numbers(std::vector<double> own) : own_(std::move(own)) {}
  Numbers(std::initializer_list<double> own) : own_(own) {}
  /// View of `count` entries, `stride` bytes apart, which `read` converts to numbers; `memory` owns
  /// them.
  Numbers(std::shared_ptr<const void> memory, const char* first, size_t count, ptrdiff_t stride,
          double (*read)(const char*))
      : memory_(std::move(memory)), first_(first), count_(count), stride_(stride), read_(read) {}

  size_t size() const { return memory_ ? count_ : own_.size(); }
  bool empty() const { return size() == 0; }
  double operator[](size_t i) const {
    return memory_ ? read_(first_ + static_cast<ptrdiff_t>(i) * stride_) : own_[i];
  }
  double front() const { return (*this)[0]; }
  double back() const { return (*this)[size() - 1]; }
  inline Iterator begin() const;
  inline Iterator end() const;

  /// Only if it owns its numbers.
  void push_back(double number) { own_.push_back(number); }
  void reserve(size_t count) { own_.reserve(count); }

  /// Copies the numbers.
  std::vector<double> to_vector() const;

 private:
  std::vector<double> own_;
  std::shared_ptr<const void> memory_;
  const char* first_ = nullptr;
  size_t count_ = 0;
  ptrdiff_t stride_ = 0;
  double (*read_)(const char*) = nullptr;
};

class Numbers::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = double;
  using difference_type = ptrdiff_t;
  using pointer = const double*;
  using reference = double;

  Iterator() = default;
  Iterator(const Numbers* of, size_t at) : of_(of), at_(at) {}
  double operator*() const { return (*of_)[at_]; }
  Iterator& operator++() {
    ++at_;
    return *this;
  }
  Iterator operator++(int) { return std::exchange(*this, {of_, at_ + 1}); }
  bool operator==(const Iterator& other) const { return at_ == other.at_; }

 private:
  const Numbers* of_ = nullptr;
  size_t at_ = 0;
};

inline Numbers::Iterator Numbers::begin() const { return {this, 0}; }
inline Numbers::Iterator Numbers::end() const { return {this, size()}; }
inline std::vector<double> Numbers::to_vector() const { return {begin(), end()}; }

}  // namespace cdt::data
