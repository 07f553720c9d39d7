#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "support/tool.hpp"

// Bad input, one by one: the exit code, and a text that names the bad word.

namespace shmcoord::test {
namespace {

class Usage : public ToolTest {
 protected:
  Usage() : ToolTest(SHMCOORD_TOOL_PATH) {}

  void expect_usage(std::vector<std::string> arguments, const std::string& named) {
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const Finished got = run(std::move(arguments));
    EXPECT_EQ(got.code(), 64) << got.err;
    EXPECT_NE(got.err.find(named), std::string::npos) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_TRUE(got.err.starts_with("shmcoord: ")) << got.err;
  }
};

TEST_F(Usage, UnknownWords) {
  expect_usage({}, "no command");
  expect_usage({"frobnicate"}, "'frobnicate'");
  expect_usage({"lock"}, "'lock' needs a command");
  expect_usage({"lock", "frobnicate", "x"}, "'lock frobnicate'");
  expect_usage({"--frobnicate"}, "'--frobnicate'");
  expect_usage({"--frobnicate", "run", "-l", "x", "--", "true"}, "'--frobnicate'");
  expect_usage({"run", "-l", "x", "--frobnicate", "--", "true"}, "'--frobnicate'");
  expect_usage({"sem"}, "'sem' needs a command");
  expect_usage({"sem", "frobnicate", "x"}, "'sem frobnicate'");
  expect_usage({"lock", "acquire", "x", "--holder", "a", "--frobnicate"}, "'--frobnicate'");
  expect_usage({"lock", "acquire", "x", "y", "--holder", "a"}, "'y'");
  expect_usage({"segment", "info", "x"}, "'x'");
  expect_usage({"inspect", "--frobnicate"}, "'--frobnicate'");
}

TEST_F(Usage, MissingWords) {
  expect_usage({"run", "--", "true"}, "--lock, --shared and --sem are missing");
  expect_usage({"sem", "create", "x"}, "--capacity is missing");
  expect_usage({"sem", "resize", "x"}, "--capacity is missing");
  expect_usage({"sem", "acquire", "x"}, "--holder is missing");
  expect_usage({"sem", "renew", "x", "--holder", "a"}, "--ttl is missing");
  expect_usage({"run", "-l", "x"}, "needs a command");
  expect_usage({"run", "-l", "x", "--"}, "needs a command");
  expect_usage({"run", "-l"}, "--lock");
  expect_usage({"lock", "acquire", "--holder", "a"}, "needs a name");
  expect_usage({"lock", "acquire", "x"}, "--holder is missing");
  expect_usage({"lock", "release", "x"}, "--holder is missing");
  expect_usage({"lock", "renew", "x", "--holder", "a"}, "--ttl is missing");
  expect_usage({"force-release", "x"}, "--reason is missing");
}

TEST_F(Usage, Names) {
  expect_usage({"run", "-l", "", "--", "true"}, "is empty");
  expect_usage({"run", "-l", std::string(256, 'n'), "--", "true"}, "is longer than 255 bytes");
  expect_usage({"run", "-l", "a\nb", "--", "true"}, "control character");
  expect_usage({"run", "-l", "\xff", "--", "true"}, "UTF-8");
  expect_usage({"run", "-l", "x", "--holder", "", "--", "true"}, "holder id '' is empty");
  expect_usage({"run", "-l", "x", "-l", "y", "-l", "x", "--", "true"}, "'x' is given twice");
  expect_usage({"run", "-l", "x", "--shared", "x", "--", "true"}, "'x' is given twice");
  expect_usage({"run", "-S", "x", "-S", "x:1048575", "--", "true"}, "'x', all together: '1048576' is not a number of");
  expect_usage({"run", "-l", "x", "-S", "x", "--", "true"}, "'x' is given twice");
  expect_usage({"run", "-S", "a:b:2", "--", "true"}, "'a:b' has a ':'");
  expect_usage({"run", "-S", ":2", "--", "true"}, "semaphore name '' is empty");
  expect_usage({"sem", "create", "", "--capacity", "1"}, "semaphore name '' is empty");
  expect_usage({"lock", "acquire", "", "--holder", "a"}, "is empty");
  expect_usage({"lock", "acquire", "x", "--holder", std::string(256, 'h')}, "is longer than 255 bytes");
  expect_usage({"lock", "acquire", "x", "--holder", "a", "--reason", std::string(4097, 'r')}, "4097 bytes");
  expect_usage({"-s", "", "inspect"}, "--segment");
  for (const char* const name : {" ", "   ", " x", "x "}) {
    expect_usage({"-s", name, "inspect"}, "starts or ends with a space");
    expect_usage({"-s", name, "segment", "create"}, "starts or ends with a space");
  }
  expect_usage({"-s", std::string(300, 's'), "inspect"}, "");
}

TEST_F(Usage, Durations) {
  for (const char* const option : {"--ttl", "--wait", "--grace"}) {
    expect_usage({"run", "-l", "x", option, "-5s", "--", "true"}, "'-5s' is negative");
    expect_usage({"run", "-l", "x", option, "5", "--", "true"}, "'5'");
    expect_usage({"run", "-l", "x", option, "5 s", "--", "true"}, "'5 s'");
    expect_usage({"run", "-l", "x", option, "5d", "--", "true"}, "'5d'");
    expect_usage({"run", "-l", "x", option, "", "--", "true"}, "''");
    expect_usage({"run", "-l", "x", option, "1e3s", "--", "true"}, "'1e3s'");
    expect_usage({"run", "-l", "x", option, "87601h", "--", "true"}, "longer than ten years");
    expect_usage({"run", "-l", "x", option, "99999999999999999999999s", "--", "true"}, "longer than ten years");
  }
  expect_usage({"run", "-l", "x", "--ttl", "0", "--", "true"}, "'0' is zero");
  expect_usage({"run", "-l", "x", "--ttl", "0s", "--", "true"}, "'0s' is zero");
  expect_usage({"run", "-l", "x", "--ttl", "0.0ms", "--", "true"}, "'0.0ms' is zero");
  expect_usage({"lock", "acquire", "x", "--holder", "a", "--ttl", "0"}, "'0' is zero");
  expect_usage({"lock", "renew", "x", "--holder", "a", "--ttl", "-1s"}, "'-1s' is negative");
  expect_usage({"reap", "--interval", "0"}, "'0' is zero");
}

TEST_F(Usage, Contradictions) {
  expect_usage({"run", "-l", "x", "-n", "-w", "5s", "--", "true"}, "exclude each other");
  expect_usage({"run", "-l", "x", "--ttl", "5s", "--ttl", "6s", "--", "true"}, "given 2 times");
  expect_usage({"lock", "acquire", "x", "--holder", "a", "--pid", "1", "--ttl", "5s"}, "exclude each other");
  expect_usage({"sem", "create", "x", "--capacity", "1", "--per-session", "1"}, "exclude each other");
}

TEST_F(Usage, Numbers) {
  expect_usage({"run", "-l", "x", "-E", "256", "--", "true"}, "'256'");
  expect_usage({"run", "-l", "x", "-E", "-1", "--", "true"}, "'-1'");
  expect_usage({"run", "-l", "x", "-E", "one", "--", "true"}, "'one'");
  expect_usage({"lock", "acquire", "x", "--holder", "a", "--pid", "0"}, "'0'");
  expect_usage({"lock", "acquire", "x", "--holder", "a", "--pid", "self"}, "'self'");
  for (const char* const number : {"0", "-1", "two", "1.5", "1048576", "99999999999", ""}) {
    const std::string quoted = "'" + std::string(number) + "'";
    expect_usage({"sem", "create", "x", "--capacity", number}, "--capacity: " + quoted);
    expect_usage({"sem", "create", "x", "--per-session", number}, "--per-session: " + quoted);
    expect_usage({"sem", "resize", "x", "--capacity", number}, "--capacity: " + quoted);
    expect_usage({"sem", "acquire", "x", "--holder", "a", "--weight", number}, "--weight: " + quoted);
    expect_usage({"run", "-S", "x:" + std::string(number), "--", "true"}, quoted + " is not a number of permits");
  }
  expect_usage({"segment", "create", "--mode", "0888"}, "'0888'");
  expect_usage({"segment", "create", "--mode", "0066"}, "'0066'");
  expect_usage({"segment", "create", "--names", "0"}, "0 names (allowed: 1 to ");
  expect_usage({"segment", "create", "--sessions", "-4"}, "'-4'");
  expect_usage({"segment", "create", "--group", "no-such-group"}, "'no-such-group'");
}

// What was meant is said where it can be known.
TEST_F(Usage, MisplacedWords) {
  expect_usage({"sem", "resize", "x", "5"}, "unexpected word '5': one name is enough (did you mean --capacity 5?)");
  expect_usage({"sem", "create", "x", "5"}, "(did you mean --capacity 5?)");
  expect_usage({"sem", "acquire", "x", "5", "--holder", "a"}, "(did you mean --weight 5?)");
  expect_usage({"lock", "renew", "x", "60s"}, "(did you mean --ttl 60s?)");
  expect_usage({"lock", "release", "x", "me"}, "(did you mean --holder me?)");
  expect_usage({"lock", "acquire", "x", "5s"}, "one name is enough; see");  // a lease or a wait
  expect_usage({"lock", "remove", "x", "5"}, "one name is enough; see");
  expect_usage({"sem", "acquire", "x", "--holder", "a", "-w", "2"}, "; for 2 permits write --weight 2\n");
  expect_usage({"run", "-S", "x", "-w", "2", "--", "true"}, "; for 2 permits write -S NAME:2\n");
  expect_usage({"run", "-l", "x", "-w", "2", "--", "true"}, "like 250ms, 5s, 2m or 1h\n");
  expect_usage({"sem", "create", "x:2"}, "`shmcoord sem create x --capacity 2`");
}

TEST_F(Usage, NothingWasMade) {
  (void)run({"run", "-l", "x", "--ttl", "0", "--", "true"});
  EXPECT_EQ(run({"segment", "info"}).code(), 2);
}

TEST_F(Usage, HelpAndVersionAreNotErrors) {
  EXPECT_TRUE(run({"--version"}).out.starts_with("shmcoord "));
  const Finished help = run({"--help"});
  EXPECT_EQ(help.code(), 0);
  EXPECT_NE(help.out.find("force-release"), std::string::npos);
  for (const char* const command : {"run", "inspect", "reap", "force-release"}) {
    const Finished got = run({command, "--help"});
    EXPECT_EQ(got.code(), 0) << command;
    EXPECT_NE(got.out.find(command), std::string::npos) << got.out;
  }
  EXPECT_EQ(run({"lock", "acquire", "--help"}).code(), 0);
  EXPECT_EQ(run({"lock", "--help"}).code(), 0);
}

TEST_F(Usage, HelpSaysWhatOneHasToKnow) {
  const auto flat = [this](std::vector<std::string> words) {
    words.emplace_back("--help");
    std::string text = run(std::move(words)).out;
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text[at] = ' ';
    return text;
  };
  const std::string acquire = flat({"lock", "acquire"});
  EXPECT_TRUE(acquire.starts_with("usage: shmcoord lock acquire [OPTION...] NAME ")) << acquire;
  EXPECT_EQ(acquire.find("[OPTION", acquire.find("[OPTION") + 1), std::string::npos) << "options are named once";
  EXPECT_NE(acquire.find("Without --pid and --ttl the hold goes stale"), std::string::npos) << acquire;
  EXPECT_NE(acquire.find("60 s"), std::string::npos) << acquire;
  EXPECT_NE(acquire.find("The first one is not 1"), std::string::npos) << acquire;
  EXPECT_TRUE(flat({"run"}).starts_with("usage: shmcoord run [OPTION...] -- CMD [ARG...] ")) << flat({"run"});
  EXPECT_NE(flat({"force-release"}).find("nobody else is told"), std::string::npos);
  for (const char* const command : {"release", "heartbeat", "renew"}) {
    EXPECT_NE(flat({"lock", command}).find("until it is taken away"), std::string::npos) << command;
    EXPECT_NE(flat({"sem", command}).find("until it is taken away"), std::string::npos) << command;
  }
  EXPECT_NE(flat({"inspect"}).find("(exit code 2), also with --watch"), std::string::npos);
  EXPECT_NE(flat({"segment", "remove"}).find("damaged"), std::string::npos);
}

TEST_F(Usage, HelpIsACommandToo) {
  const auto same = [this](std::vector<std::string> words, std::vector<std::string> as) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const Finished got = run(std::move(words));
    EXPECT_EQ(got.code(), 0) << got.err;
    EXPECT_EQ(got.out, run(std::move(as)).out);
  };
  same({"help"}, {"--help"});
  same({"help", "run"}, {"run", "--help"});
  same({"help", "sem"}, {"sem", "--help"});
  same({"help", "sem", "acquire"}, {"sem", "acquire", "--help"});
  same({"sem", "help"}, {"sem", "--help"});
  const std::string of_group = run({"help", "sem"}).out;
  EXPECT_TRUE(of_group.starts_with("usage: shmcoord sem COMMAND [OPTION...]\n")) << of_group;
  EXPECT_NE(of_group.find("\n  sem resize        change the capacity\n"), std::string::npos) << of_group;
  EXPECT_EQ(of_group.find("lock"), std::string::npos) << of_group;
  expect_usage({"help", "frobnicate"}, "no help for 'frobnicate'");
  expect_usage({"help", "lock", "frobnicate"}, "no help for 'lock frobnicate'");
}

/// The words of a text that look like options.
std::set<std::string> options_in(const std::string& text) {
  std::set<std::string> found;
  std::string word;
  for (const char c : text + " ") {
    if (c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    if (word.size() > 1 && word.starts_with('-')) found.insert(word);
    word.clear();
  }
  return found;
}

// Whatever the help offers stands in the manual page.
TEST_F(Usage, ManualPageIsComplete) {
  const Finished got = run({"manual"});
  ASSERT_EQ(got.code(), 0) << got.err;
  EXPECT_TRUE(got.out.find(".TH SHMCOORD 1 ") != std::string::npos);
  std::string plain;
  for (std::size_t at = 0; at < got.out.size(); ++at) {
    if (got.out.compare(at, 2, "\\f") == 0) {
      at += 2;
    } else if (got.out[at] != '\\') {
      plain += got.out[at];
    }
  }
  const std::set<std::string> offered = options_in(plain);
  std::istringstream help(run({"--help"}).out);
  std::string line;
  while (std::getline(help, line) && line != "Commands:") continue;
  int commands = 0;
  while (std::getline(help, line) && !line.empty()) {
    ++commands;
    const std::string command = line.substr(2, line.find("  ", 2) - 2);
    const auto section = plain.find("\n.SS " + command);
    ASSERT_NE(section, std::string::npos) << command;
    const std::string text = plain.substr(section, plain.find("\n.S", section + 1) - section);
    std::vector<std::string> words{"--help"};
    std::istringstream parts(command);
    for (std::string part; parts >> part;) words.insert(words.end() - 1, part);
    const std::string of_command = run(words).out;
    for (const std::string& option : options_in(of_command)) {
      EXPECT_TRUE(offered.contains(option)) << command << " " << option;
      const bool global = option == "-s" || option == "--segment" || option == "--trust" || option == "--json" ||
                          option == "-h" || option == "--help" || option == "--";
      EXPECT_TRUE(global || options_in(text).contains(option)) << command << " " << option;
    }
  }
  EXPECT_GE(commands, 15);
  // For the build only: offered nowhere.
  EXPECT_EQ(run({"--help"}).out.find("manual"), std::string::npos);
  EXPECT_EQ(run({"completion"}).out.find("manual"), std::string::npos);
}

TEST_F(Usage, ManualPageIsGoodTroff) {
  const Finished got = start_shell(
                           "command -v groff >/dev/null || exit 99; \"$SHMCOORD\" manual >$SCRATCH/page; "
                           "groff -man -Tutf8 -ww -z $SCRATCH/page")
                           ->wait();
  if (got.code() == 99) GTEST_SKIP() << "groff is not installed";
  EXPECT_EQ(got.code(), 0);
  EXPECT_EQ(got.err, "");
}

TEST_F(Usage, GlobalOptionsStandAnywhere) {
  EXPECT_EQ(run({"run", "-l", "x", "--", "true"}).code(), 0);
  EXPECT_TRUE(run({"--json", "segment", "info"}).out.starts_with("{"));
  EXPECT_TRUE(run({"segment", "info", "--json", "-s", segment_}).out.starts_with("{"));
  EXPECT_TRUE(run({"segment", "--json", "info"}).out.starts_with("{"));
  EXPECT_EQ(run({"segment", "-s", segment_ + "-other", "info"}).code(), 2);
  EXPECT_EQ(run({"segment", "--segment=" + segment_ + "-other", "--json", "info"}).code(), 2);
  EXPECT_EQ(run({"-s", segment_ + "-other", "segment", "info"}).code(), 2);
  EXPECT_EQ(run({"--segment=" + segment_ + "-other", "segment", "info"}).code(), 2);
}

TEST_F(Usage, UnusableSegments) {
  const std::string foreign = file("foreign");
  std::ofstream(foreign) << "this is not a segment";
  for (const auto& command : std::vector<std::vector<std::string>>{{"run", "-l", "x", "--", "true"},
                                                                   {"lock", "acquire", "x", "--holder", "a"},
                                                                   {"segment", "info"},
                                                                   {"inspect"}}) {
    SCOPED_TRACE(command[0]);
    std::vector<std::string> words{"-s", foreign};
    words.insert(words.end(), command.begin(), command.end());
    const Finished got = run(words);
    EXPECT_EQ(got.code(), 69) << got.err;
    EXPECT_NE(got.err.find(foreign), std::string::npos) << got.err;
  }
  EXPECT_EQ(run({"-s", "/no/such/directory/segment", "run", "-l", "x", "--", "true"}).code(), 69);
}

TEST_F(Usage, CompletionIsTheOneInTheTree) {
  const Finished got = run({"completion"});
  EXPECT_EQ(got.code(), 0);
  EXPECT_EQ(got.out, read_file(SHMCOORD_SOURCE_DIR "/tools/completion/shmcoord.bash"))
      << "write it anew: shmcoord completion >tools/completion/shmcoord.bash";
}

TEST_F(Usage, CompletionCompletes) {
  const auto complete = [this](const std::string& words) {
    std::ofstream(file("script")) << "source " SHMCOORD_SOURCE_DIR "/tools/completion/shmcoord.bash\n"
                                  << "COMP_WORDS=(shmcoord " << words
                                  << " \"$1\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                  << "_shmcoord; echo ${COMPREPLY[@]}\n";
    return [this](const std::string& current) {
      return start_shell("bash $SCRATCH/script '" + current + "'")->wait().out;
    };
  };
  EXPECT_EQ(complete("")("re"), "reap\n");
  EXPECT_EQ(complete("-s name")("insp"), "inspect\n");
  EXPECT_EQ(complete("lock")("acq"), "acquire\n");
  EXPECT_EQ(complete("lock acquire x")("--ho"), "--holder\n");
  EXPECT_EQ(complete("run -l x")("--no-wait-t"), "--no-wait-tree\n");
  EXPECT_EQ(complete("run -l")("--"), "\n") << "a value is expected";
  EXPECT_EQ(complete("help")("pipe"), "pipeline\n");
  EXPECT_EQ(complete("help pipeline")("re"), "resume remove\n");
  EXPECT_EQ(complete("help")("--"), "\n");
  EXPECT_EQ(complete("help lock acquire")("--"), "\n");
  std::ofstream(file("p.json")) << "{}";
  EXPECT_EQ(complete("pipeline run")(file("p.js")), file("p.json") + "\n");
}

TEST_F(Usage, CompletionOffersTheNamesOfTheSegment) {
  std::ofstream(file("p.json")) << R"({"id": "release 1", "phases": [{"name": "a"}]})";
  ASSERT_EQ(run({"pipeline", "run", file("p.json")}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "rope", "--holder", "a"}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "$(touch $SCRATCH/ran)", "--holder", "a"}).code(), 0);
  ASSERT_EQ(run({"sem", "create", "rooms", "--capacity", "1"}).code(), 0);
  ASSERT_EQ(run({"guard", "add", "ready", "--condition", "lock_free(rope)"}).code(), 0);
  const std::string other = segment_ + "-other";
  ASSERT_EQ(run({"-s", other, "sem", "create", "row", "--capacity", "1"}).code(), 0);
  const auto complete = [this](const std::string& words, const std::string& current) {
    std::ofstream(file("script")) << "source " SHMCOORD_SOURCE_DIR "/tools/completion/shmcoord.bash\n"
                                  << "COMP_WORDS=(\"$SHMCOORD\" " << words
                                  << " \"$1\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                  << "_shmcoord; (IFS=,; echo \"${COMPREPLY[*]}\")\n";
    return start_shell("bash $SCRATCH/script '" + current + "'")->wait().out;
  };
  for (const char* const command : {"resume", "cancel", "remove", "status"}) {
    EXPECT_EQ(complete(std::string("pipeline ") + command, "r"), "release\\ 1\n") << command;
  }
  EXPECT_EQ(complete("lock release", "r"), "rope\n");
  EXPECT_EQ(complete("sem status", "r"), "rooms\n");
  EXPECT_EQ(complete("guard wait", "r"), "ready\n");
  EXPECT_EQ(complete("guard add", "r"), "\n") << "a new one";
  EXPECT_EQ(complete("run -l", "r"), "rope\n");
  EXPECT_EQ(complete("run --sem", "r"), "rooms\n");
  EXPECT_EQ(complete("--segment = " + other + " sem status", "r"), "row\n");
  EXPECT_EQ(complete("-s " + other + "s sem status", "r"), "\n") << "none, and nothing is said";
  EXPECT_EQ(complete("lock release", ""), "--help,--holder,\\$\\(touch\\ \\$SCRATCH/ran\\),rope\n");
  EXPECT_FALSE(std::filesystem::exists(file("ran")));
  EXPECT_EQ(run({"-s", other, "segment", "remove"}).code(), 0);
}

TEST_F(Usage, HelpAndManualTellOfAllThatThereIs) {
  const std::string page = run({"manual"}).out;
  const std::string help = run({"help"}).out;
  for (const char* const word : {"SHMCOORD_PIPELINE", "SHMCOORD_PHASE", "SHMCOORD_HELD", "SHMCOORD_SESSION"}) {
    EXPECT_NE(page.find(std::string(".TP\n") + word + "\n"), std::string::npos) << word;
  }
  EXPECT_NE(page.find("locks, semaphores, guards and pipelines between"), std::string::npos);
  EXPECT_NE(page.find("A snapshot is"), std::string::npos);
  EXPECT_NE(page.find("\n.TP\n75\n\\(garun\\(ga: the hold was lost while the command ran; \\(gapipeline run\\(ga"),
            std::string::npos);
  EXPECT_TRUE(help.starts_with("shmcoord [-s NAME|PATH] [--json] COMMAND ...\nLocks, semaphores, guards and pipe"));
  EXPECT_NE(run({"help", "segment", "create"}).out.find("locks, semaphores, guards and pipelines"), std::string::npos);
  // The commands of a group stand together.
  std::istringstream lines(help.substr(help.find("Commands:\n") + 10));
  std::set<std::string> groups;
  std::string last;
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const std::string group = line.substr(2, line.find(' ', 2) - 2);
    if (group != last) {
      EXPECT_TRUE(groups.insert(group).second) << group;
    }
    last = group;
  }
  EXPECT_GE(groups.size(), 10U);
  EXPECT_EQ(help.find("names "), std::string::npos) << "for the completion only";
}

// `run -l $EMPTY -- make` must not run make under a lock that is named by the next word.
TEST_F(Usage, AnOptionIsNotTheValueOfAnother) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"run", "-l", "--", "true"},
                                             {"run", "-l", "-n", "--", "true"},
                                             {"run", "-l", "x", "--holder", "--reason", "y", "--", "true"},
                                             {"lock", "acquire", "x", "--holder", "-n"}}) {
    const Finished got = run(words);
    EXPECT_EQ(got.code(), 64) << ::testing::PrintToString(words);
    EXPECT_NE(got.err.find("is a variable empty?"), std::string::npos) << got.err;
  }
  EXPECT_EQ(run({"run", "-l", "x", "--", "true", "--", "-n"}).code(), 0);
  EXPECT_EQ(run({"run", "-l", "x", "--reason", "-x: because", "--", "true"}).code(), 0);
}

}  // namespace
}  // namespace shmcoord::test
