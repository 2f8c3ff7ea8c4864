#include "core/tools/stat/json.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/tools/stat/words.hpp"

namespace comch::stat {
namespace {

using Json = nlohmann::ordered_json;

void add_figures(Json& to, const Figures& figures) {
    for (const auto& field : counters::figure_fields) {
        to[field.name] = figures.*field.member;
    }
}

/// Per second.
Json rates(const Figures& gained, double seconds) {
    Json json = Json::object();
    for (const auto& field : counters::figure_fields) {
        json[field.name] = static_cast<double>(gained.*field.member) / seconds;
    }
    return json;
}

Json path_json(Path path) {
    switch (path) {
    case Path::bulk_ring:
        return "bulk_ring";
    case Path::mapped:
        return "mapped";
    case Path::process_vm:
        return "process_vm";
    case Path::none:
    case Path::in_line:
        break;
    }
    return nullptr;
}

Json to_json(const ProcessSample& process, const ConnectionSample& c, const Gains* gains) {
    const bool channel = c.kind == counters::SlotKind::channel;
    Json json = {{"slot", c.slot},
                 {"connection", c.connection != 0 ? Json(c.connection) : Json(nullptr)},
                 {"kind", channel ? "channel" : "connection"},
                 {"shared", c.slot == counters::max_slots},
                 {"state", state_text(c.state)},
                 {"face", c.face},
                 {"peer", c.peer},
                 {"side", side_text(c.local_side)},
                 {"peer_side", side_text(c.peer_side)},
                 {"peer_pid", c.peer_pid},
                 {"in_flight", c.in_flight ? Json(*c.in_flight) : Json(nullptr)},
                 {"bulk_path", path_json(bulk_path(c.figures))}};
    add_figures(json, c.figures);
    if (gains != nullptr) {
        json["rates"] = rates(gains->of(process, c), gains->seconds());
    }
    return json;
}

} // namespace

std::string to_json(const Domain& domain, const std::vector<ProcessSample>& processes,
                    const Gains* gains, int indent) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    Json list = Json::array();
    for (const ProcessSample& process : processes) {
        Json connections = Json::array();
        for (const ConnectionSample& connection : process.connections) {
            connections.push_back(to_json(process, connection, gains));
        }
        Json ended = Json::object();
        add_figures(ended, process.ended);
        list.push_back({{"pid", process.pid},
                        {"process_id", fmt::format("{:016x}", process.process_id)},
                        {"program", process.program},
                        {"connections", std::move(connections)},
                        {"ended", std::move(ended)}});
    }
    const Totals sums = total(processes, gains);
    Json totals = {{"processes", sums.processes},
                   {"connections", sums.connections},
                   {"in_flight", sums.in_flight}};
    add_figures(totals, sums.figures);
    if (sums.gained) {
        totals["rates"] = rates(*sums.gained, gains->seconds());
    }
    const Json document = {{"domain", domain.path()},
                           {"domain_id", domain.id().to_string()},
                           {"time", now.count()},
                           {"seconds", gains != nullptr ? Json(gains->seconds()) : Json(nullptr)},
                           {"processes", std::move(list)},
                           {"totals", std::move(totals)}};
    // Names come from other processes, and may be no UTF-8.
    return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

} // namespace comch::stat
