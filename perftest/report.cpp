#include "perftest/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perftest/clock.hpp"

namespace comch::perftest {
namespace {

// Ordered, so that the output reads in the order in which it is written here.
using Json = nlohmann::ordered_json;

class Table final : public Report {
public:
    explicit Table(std::FILE* out) : out_(out) {}

    void begin(const Options& options, const Parties& parties) override {
        mode_ = options.plan.mode;
        std::string pinned;
        if (!options.cpus.empty() || !options.server_cpus.empty()) {
            const auto list = [](const std::vector<std::uint32_t>& cpus) {
                return cpus.empty() ? std::string("any") : format_cpus(cpus);
            };
            pinned = fmt::format(", CPUs {} and {}", list(options.cpus), list(options.server_cpus));
        }
        fmt::print(out_, "# {} path, {}, {} thread{}{}{}{}, {} to the server '{}'\n",
                   to_string(options.plan.path), to_string(mode_), options.plan.threads,
                   options.plan.threads == 1 ? "" : "s", options.plan.verify ? ", verified" : "",
                   options.plan.sleep ? ", sleeping" : "", pinned, parties.client_device,
                   parties.server_name);
        if (mode_ == Mode::ping_pong) {
            fmt::print(out_, "# latency in microseconds: half of a round trip\n");
            fmt::print(out_,
                       "{:>10} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                       "Bytes", "Round trips", "/s", "min", "mean", "50%", "90%", "99%", "99.9%",
                       "99.99%", "max");
        } else {
            fmt::print(out_, "{:>10} {:>12} {:>9} {:>10} {:>11} {:>9}", "Bytes", "Messages",
                       "Seconds", "M msg/s", "MB/s", "Gbit/s");
            if (mode_ == Mode::two_way) {
                fmt::print(out_, " {:>11} {:>11}", "sent MB/s", "rec. MB/s");
            }
            fmt::print(out_, "\n");
        }
        std::fflush(out_);
    }

    void row(const RoundResult& result) override {
        const Figures f(result);
        if (mode_ == Mode::ping_pong) {
            const auto& l = f.latency;
            fmt::print(out_, "{:>10} {:>11} {:>9.0f}", f.size, f.messages, f.messages_per_second);
            for (const double us : {l.min, l.mean, l.p50, l.p90, l.p99, l.p99_9, l.p99_99, l.max}) {
                fmt::print(out_, " {:>9}", short_number(us));
            }
        } else {
            fmt::print(out_, "{:>10} {:>12} {:>9.3f} {:>10.4f} {:>11.2f} {:>9.3f}", f.size,
                       f.messages, f.seconds, f.messages_per_second / 1e6, f.bytes_per_second / 1e6,
                       f.bytes_per_second * 8 / 1e9);
            if (mode_ == Mode::two_way) {
                fmt::print(out_, " {:>11.2f} {:>11.2f}", f.sent_bytes_per_second / 1e6,
                           f.received_bytes_per_second / 1e6);
            }
        }
        fmt::print(out_, "\n");
        std::fflush(out_);
    }

    void end(bool /*complete*/) override {}

private:
    /// Three decimals, as long as they fit.
    static std::string short_number(double value) {
        return value < 10'000 ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
    }

    std::FILE* out_;
    Mode mode_ = Mode::ping_pong;
};

class Csv final : public Report {
public:
    explicit Csv(std::FILE* out) : out_(out) {}

    void begin(const Options& options, const Parties& /*parties*/) override {
        plan_ = options.plan;
        fmt::print(out_,
                   "path,mode,threads,verified,bytes,window,messages,seconds,messages_per_second,"
                   "bytes_per_second,sent_bytes_per_second,received_bytes_per_second,min_us,"
                   "mean_us,p50_us,p90_us,p99_us,p99_9_us,p99_99_us,max_us,wrong,buffers,"
                   "send_buffers\n");
        std::fflush(out_);
    }

    void row(const RoundResult& result) override {
        const Figures f(result);
        fmt::print(out_, "{},{},{},{},{},{},{},{:.9f},{:.3f},{:.3f},{:.3f},{:.3f}",
                   to_string(plan_.path), to_string(plan_.mode), plan_.threads,
                   plan_.verify ? 1 : 0, f.size, f.window, f.messages, f.seconds,
                   f.messages_per_second, f.bytes_per_second, f.sent_bytes_per_second,
                   f.received_bytes_per_second);
        const auto& l = f.latency;
        for (const double us : {l.min, l.mean, l.p50, l.p90, l.p99, l.p99_9, l.p99_99, l.max}) {
            if (plan_.mode == Mode::ping_pong) {
                fmt::print(out_, ",{:.4f}", us);
            } else {
                fmt::print(out_, ",");
            }
        }
        fmt::print(out_, ",{},{},{}\n", f.wrong, result.load.buffers,
                   send_buffers(plan_, result.load));
        std::fflush(out_);
    }

    void end(bool /*complete*/) override {}

private:
    std::FILE* out_;
    Plan plan_;
};

class JsonReport final : public Report {
public:
    explicit JsonReport(std::FILE* out) : out_(out) {}

    void begin(const Options& options, const Parties& parties) override {
        plan_ = options.plan;
        const auto amount = [](const Amount& a) {
            return a.seconds > 0 ? Json{{"seconds", a.seconds}} : Json{{"messages", a.messages}};
        };
        json_ = {{"path", to_string(options.plan.path)},
                 {"mode", to_string(plan_.mode)},
                 {"threads", options.plan.threads},
                 {"verified", options.plan.verify},
                 {"sleeping", options.plan.sleep},
                 {"goal", amount(options.goal)},
                 {"warm_up", amount(options.warm_up)},
                 {"client",
                  {{"device", parties.client_device},
                   {"pid", parties.client_pid},
                   {"cpus", options.cpus}}},
                 {"server",
                  {{"name", parties.server_name},
                   {"pid", parties.server_pid},
                   {"cpus", options.server_cpus}}},
                 {"results", Json::array()}};
    }

    void row(const RoundResult& result) override {
        const Figures f(result);
        Json row = {{"bytes", f.size},
                    {"window", f.window},
                    {"buffers", result.load.buffers},
                    {"send_buffers", send_buffers(plan_, result.load)},
                    {"messages", f.messages},
                    {"seconds", f.seconds},
                    {"messages_per_second", f.messages_per_second},
                    {"bytes_per_second", f.bytes_per_second}};
        if (plan_.mode == Mode::two_way) {
            row["sent_messages"] = f.sent;
            row["received_messages"] = f.received;
            row["sent_bytes_per_second"] = f.sent_bytes_per_second;
            row["received_bytes_per_second"] = f.received_bytes_per_second;
        }
        if (plan_.mode == Mode::ping_pong) {
            const auto& l = f.latency;
            row["latency_us"] = {{"min", l.min},       {"mean", l.mean}, {"p50", l.p50},
                                 {"p90", l.p90},       {"p99", l.p99},   {"p99_9", l.p99_9},
                                 {"p99_99", l.p99_99}, {"max", l.max}};
        }
        row["wrong"] = f.wrong;
        json_["results"].push_back(std::move(row));
    }

    void end(bool complete) override {
        json_["complete"] = complete;
        // Names and files may be no UTF-8.
        fmt::print(out_, "{}\n", json_.dump(2, ' ', false, Json::error_handler_t::replace));
    }

private:
    std::FILE* out_;
    Plan plan_;
    Json json_;
};

} // namespace

Figures::Figures(const RoundResult& result)
    : size(result.load.size), window(result.load.window), messages(result.sent + result.received),
      sent(result.sent), received(result.received), seconds(result.seconds),
      wrong(result.wrong.messages) {
    const auto rate = [&](std::uint64_t count) {
        return seconds > 0 ? static_cast<double>(count) / seconds : 0;
    };
    const auto bytes = static_cast<double>(size);
    messages_per_second = rate(messages);
    bytes_per_second = messages_per_second * bytes;
    sent_bytes_per_second = rate(sent) * bytes;
    received_bytes_per_second = rate(received) * bytes;
    const Histogram& h = result.round_trips;
    const auto half_us = [](double ticks) { return Clock::nanoseconds(ticks) / 2 / 1000; };
    const auto at = [&](double percent) {
        return half_us(static_cast<double>(h.percentile(percent)));
    };
    latency = {.min = half_us(static_cast<double>(h.min())),
               .mean = half_us(h.mean()),
               .p50 = at(50),
               .p90 = at(90),
               .p99 = at(99),
               .p99_9 = at(99.9),
               .p99_99 = at(99.99),
               .max = half_us(static_cast<double>(h.max()))};
}

std::unique_ptr<Report> make_report(Format format, std::FILE* out) {
    switch (format) {
    case Format::csv:
        return std::make_unique<Csv>(out);
    case Format::json:
        return std::make_unique<JsonReport>(out);
    default:
        return std::make_unique<Table>(out);
    }
}

int complain(const Error& error) {
    fmt::print(stderr, "comch_perftest: {}\n", error.message);
    return 1;
}

} // namespace comch::perftest
