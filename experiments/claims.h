/// The paper's published values and its statements about its experiments, checked on the runs of a
/// sweep.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/experiment/summary.h>

namespace cdt::paper {

/// A value of the paper's tables; NaN where it prints infinity.
struct PublishedRow {
  std::string architecture;
  double lr = 0;
  std::string method;
  report::PublishedLoss value;
};

/// What the paper says of its experiment.
struct Published {
  std::vector<PublishedRow> rows;
  std::string note;        ///< where they come from
  int64_t closer = 0;      ///< samples that end nearer their labels under CDT (Fig. samples)
  int64_t of_samples = 0;  ///< 0: not said
};

/// Of an experiment's file.
/// @throws InvalidArgument, with the key, if a value is missing or is not what it should be.
Published read_published(const JsonValue& experiment);

/// Puts the published values beside the rows that they belong to.
void add_published(const Published& published, std::vector<experiment::Row>& rows);

/// The paper's statements, checked on these runs. Empty unless there are gd and cdt,
/// and for classes, of which the paper says nothing.
std::vector<report::Claim> check_claims(const experiment::Plan& plan, const Published& published,
                                        const std::vector<experiment::Row>& rows,
                                        const std::vector<experiment::CaseRun>& runs);

}  // namespace cdt::paper
