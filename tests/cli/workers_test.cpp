// cdt train --workers: the model of one process, and what becomes of a run whose workers fail.
#include <unistd.h>

#include "cli/training.h"

namespace cdt {
namespace {

using test::homes;
using test::split;
using testing::HasSubstr;

class Workers : public test::Training {
 protected:
  /// Predicted prices.
  std::vector<double> predictions(test::Text run) const {
    std::vector<double> values;
    test::edited(slurp(run + "/predictions.csv"), [&](test::Row& row, int i) {
      if (i > 0) values.push_back(std::stod(row.at(3)));
    });
    return values;
  }
  void expect_same_predictions(test::Text a, test::Text b) const {
    const auto found = predictions(a), wanted = predictions(b);
    ASSERT_EQ(found.size(), wanted.size());
    ASSERT_GT(found.size(), 30U);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], 1e-5 * std::abs(wanted[i])) << i;
    }
  }
  /// A run that takes long, in the background; then `deeds`, with $pid and $first, $second, its
  /// workers; the exit code is the run's.
  Result disturbed(test::Text options, test::Text deeds) const {
    write("large.csv", homes(6000));
    return shell(
        CDT_PROGRAM
        " train large.csv --target price --hidden 48,48 --form sketch --threads 1 "
        "--patience 1000 --steps 1000 --checkpoint-seconds 0.1 --quiet --out run --workers "
        "2 " +
        options +
        " & pid=$!; until [ -e run/checkpoint.safetensors ] || ! kill -0 $pid; do sleep "
        "0.05; done; read first second < /proc/$pid/task/$pid/children; " +
        deeds + "; wait $pid; code=$?; kill -0 $second && exit 99; exit $code");
  }
};

TEST_F(Workers, GiveTheModelOfOne) {
  const std::string common =
      "train homes.csv --target price --threads 1 --hidden 16 --dtype float64 --steps 4 ";
  for (const std::string goal :
       {"--goal predict --ensemble 1 --form primal", "--goal predict --ensemble 2 --form sketch",
        "--goal fit --form sketch", "--goal fit --form primal"}) {
    SCOPED_TRACE(goal);
    const Result one = cdt(common + goal + " --overwrite --out one");
    const Result three = cdt(common + goal + " --overwrite --out three --workers 3");
    ASSERT_EQ(one.code, 0) << one.err;
    ASSERT_EQ(three.code, 0) << three.err;
    expect_same_predictions("three", "one");
    EXPECT_EQ(parse("three/run.json")["machine"]["workers"], 3);
    EXPECT_FALSE(parse("one/run.json")["machine"].contains("workers"));
    const auto spoken = three.out.find("Next: cdt predict three");  // one of them speaks
    EXPECT_NE(spoken, std::string::npos);
    EXPECT_EQ(three.out.find("Next:", spoken + 1), std::string::npos);
  }
}

TEST_F(Workers, GoOnInAnotherNumber) {
  const std::string common = "--form primal --dtype float64 --plateau 0 --out ";
  trained(common + "whole --steps 6");
  trained(common + "parts --steps 2 --workers 2");
  ASSERT_EQ(cdt("train --resume parts --steps 4 --workers 3").code, 0);
  ASSERT_EQ(cdt("train --resume parts --steps 6").code, 0);
  expect_same_predictions("parts", "whole");
}

TEST_F(Workers, RefuseWhatTheyCannotShare) {
  const std::string common = "--workers 2 ";
  expect_refused(common,
                 "form dual (28 residuals: their kernel is exact, and small) has one kernel");
  expect_refused(common + "--method adam", "not of method adam");
  expect_refused(common + "--lr 0.1", "workers share guarded steps that find their own rate");
  expect_refused(common + "--form sketch --batch 4", "not in batches");
  expect_refused("--workers 0", "--workers");
  write("few.csv", homes(5));
  expect_refused("--workers 5 --form primal", "3 training rows cannot be shared by 5 workers",
                 "few.csv");
}

TEST_F(Workers, EndWithOneThatIsKilled) {
  const Result result = disturbed("", "kill -KILL $second");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 does not answer any more"));
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by signal 9"));
}

TEST_F(Workers, EndWithTheFirstOne) {
  const Result result = disturbed("", "kill -KILL $first");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 0 was killed by signal 9"));
}

TEST_F(Workers, EndWithOneThatHangs) {
  const Result result = disturbed("--worker-timeout 2", "kill -STOP $second");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 does not answer any more"));
}

/// And what is saved goes on.
TEST_F(Workers, StopTogether) {
  const Result result = disturbed("", "kill -TERM $pid");
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(cdt("train --resume run --quiet --workers 3 --max-seconds 1").code, 0);
  EXPECT_TRUE(exists("run/model.safetensors"));
}

/// Ranks that are still being loaded know no signals.
TEST_F(Workers, StopWhileTheyAreLoaded) {
  const Result result = shell(CDT_PROGRAM
                              " train homes.csv --target price --workers 2 --out run & pid=$!; "
                              "until read first rest < /proc/$pid/task/$pid/children; [ -n "
                              "\"$first\" ] || ! kill -0 $pid; do sleep 0.01; done; "
                              "kill -TERM $pid; wait $pid");
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_FALSE(exists("run"));
}

/// As on several machines: each process is told its place.
class Ranked : public Workers {
 protected:
  /// Rank 0 and rank 1, each with a file and a folder of its own, and started `by` a command each.
  struct Both {
    std::string file = "homes.csv", other = "homes.csv";
    std::string address = "127.0.0.1";
    std::string by = "", other_by = "";
  };
  std::pair<Result, Result> run_both(const Both& both) const {
    const auto rank = [&](int k, test::Text by, test::Text data, test::Text to) {
      return "RANK=" + std::to_string(k) + " WORLD_SIZE=2 MASTER_ADDR=" + both.address +
             " MASTER_PORT=" + std::to_string(20000 + ::getpid() % 20000) + " " + by +
             " " CDT_PROGRAM " train " + data +
             " --target price --hidden 8 --threads 1 --ensemble 1 --form primal --steps 3 --out " +
             to;
    };
    const Result first =
        shell("(" + rank(1, both.other_by, both.other, "second") +
              " >out1.txt 2>err1.txt; echo $? >code1.txt) & " +
              rank(0, both.by, both.file, "first") + "; code=$?; wait; exit $code");
    return {first, {std::stoi(slurp("code1.txt")), slurp("out1.txt"), slurp("err1.txt")}};
  }
};

TEST_F(Ranked, MeetAtAnAddress) {
  const auto [first, second] = run_both({});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, "");
  EXPECT_TRUE(exists("first/model.safetensors"));
  EXPECT_FALSE(exists("second"));
}

/// Two machines, as far as a network shows them: each has addresses of its own, and one name that
/// leads the first to 127.0.1.1, as Debian has it.
TEST_F(Ranked, MeetAcrossANetwork) {
  const std::string names = "cdt" + std::to_string(::getpid());
  const std::string a = names + "a", b = names + "b";
  const std::string gone = "ip netns del " + a + "; ip netns del " + b;
  const auto up = [](test::Text name, test::Text address) {
    return " && ip -n " + name + " addr add " + address + "/24 dev " + name + " && ip -n " + name +
           " link set lo up && ip -n " + name + " link set " + name + " up && ip netns exec " +
           name + " unshare -m true";
  };
  const Result made =
      shell("ip netns add " + a + " && ip netns add " + b + " && ip link add " + a + " netns " + a +
            " type veth peer name " + b + " netns " + b + up(a, "10.9.0.1") + up(b, "10.9.0.2"));
  if (made.code != 0) {
    shell(gone);
    GTEST_SKIP() << "no network can be made here (ip netns, of iproute2, as root): " << made.err;
  }
  write("hosts", "127.0.0.1 localhost\n127.0.1.1 head\n");
  write("other-hosts", "127.0.0.1 localhost\n10.9.0.1 head\n");
  const auto inside = [](test::Text name, test::Text hosts) {
    return "ip netns exec " + name + " unshare -m sh -c 'mount --bind " + hosts +
           " /etc/hosts && exec \"$@\"' sh";
  };
  const auto [first, second] =
      run_both({.address = "head", .by = inside(a, "hosts"), .other_by = inside(b, "other-hosts")});
  shell(gone);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(exists("first/model.safetensors"));
}

TEST_F(Ranked, MustHaveTheSameFile) {
  write("other.csv", homes(41));
  const auto [first, second] = run_both({.other = "other.csv"});
  for (const Result& each : {first, second}) {
    EXPECT_EQ(each.code, 2);
    EXPECT_THAT(each.err, HasSubstr("rank 1 has another data file than rank 0"));
  }
}

TEST_F(Ranked, SayWhatEndsOneOfThem) {
  const auto [first, second] = run_both({.other = "missing.csv"});
  EXPECT_EQ(first.code, 1);
  EXPECT_THAT(first.err, HasSubstr("rank 1 has failed: cannot read missing.csv"));
  EXPECT_EQ(second.code, 2);
  EXPECT_FALSE(exists("first"));
}

TEST_F(Workers, EndOnAFullDisk) {
  const Result result = shell(
      "ulimit -f 1; " CDT_PROGRAM
      " train homes.csv --target price --hidden 8 --threads 1 --form primal --workers 2 --out run");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("run"));
  EXPECT_FALSE(exists("run/model.safetensors"));
}

}  // namespace
}  // namespace cdt
