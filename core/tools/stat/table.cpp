#include "core/tools/stat/table.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include <fmt/format.h>

#include "core/tools/stat/words.hpp"

namespace comch::stat {
namespace {

struct Row {
    const ProcessSample* process;
    const ConnectionSample* connection;
    Figures figures; ///< to be shown: totals, or what was gained
};

/// How wide the names may be.
struct Names {
    std::size_t program = 10;
    std::size_t peer = 11;
};
Names names_for(std::size_t columns) {
    Names names;
    std::size_t more = columns > table_width ? columns - table_width : 0;
    const auto grow = [&more](std::size_t& width, std::size_t limit) {
        const std::size_t n = std::min(more, limit - width);
        width += n;
        more -= n;
    };
    grow(names.peer, 31); // a name of 23 characters and a process id
    grow(names.program, 15);
    return names;
}

const char* short_state(counters::SlotState state) {
    switch (state) {
    case counters::SlotState::connecting:
        return "wait";
    case counters::SlotState::connected:
        return "open";
    case counters::SlotState::closed:
        return "end";
    case counters::SlotState::failed:
        return "fail";
    case counters::SlotState::free:
        break;
    }
    return "?";
}

const char* short_path(Path path) {
    switch (path) {
    case Path::in_line:
        return "inline";
    case Path::bulk_ring:
        return "bulk";
    case Path::mapped:
        return "mapped";
    case Path::process_vm:
        return "vm";
    case Path::none:
        break;
    }
    return "-";
}

/// "name:pid", the name cut so that the process id is whole.
std::string peer_text(const ConnectionSample& c, std::size_t width) {
    const std::string name = c.peer.empty() ? "-" : printable(c.peer);
    const std::string pid = c.peer_pid != 0 ? fmt::format(":{}", c.peer_pid) : "";
    return name.substr(0, width - std::min(width, pid.size())) + pid;
}

/// The figures of a row, per second if there are gains.
std::string numbers_of(const Figures& figures, const std::string& in_flight, const Gains* gains) {
    const double seconds = gains != nullptr ? gains->seconds() : 1;
    const auto count = [&](std::uint64_t n) {
        return short_number(static_cast<double>(n) / seconds);
    };
    return fmt::format("{:>5} {:>5} {:>5} {:>5} {:>6} {:>6} {:>6} {:<6}",
                       count(operations_out(figures)), count(bytes_out(figures)),
                       count(operations_in(figures)), count(bytes_in(figures)), in_flight,
                       count(figures.credit_stalls), count(figures.buffer_stalls),
                       short_path(main_path(figures)));
}

std::string line(const std::string& pid, const std::string& program, const std::string& face,
                 const char* side, const std::string& peer, const char* state,
                 const std::string& numbers, const Names& names) {
    return fmt::format("{:>7} {:<{}.{}} {:<7.7} {:<4.4} {:<{}.{}} {:<4} {}", pid, program,
                       names.program, names.program, face, side, peer, names.peer, names.peer,
                       state, numbers);
}

std::string headings(const Gains* gains, const Names& names) {
    const bool rates = gains != nullptr;
    return line("pid", "program", "face", "side", "peer", "st",
                fmt::format("{:>5} {:>5} {:>5} {:>5} {:>6} {:>6} {:>6} {:<6}",
                            rates ? "out/s" : "out", rates ? "B/s" : "B", rates ? "in/s" : "in",
                            rates ? "B/s" : "B", "flight", "credit", "buffer", "path"),
                names);
}

std::string totals_line(const Totals& totals, const Gains* gains, const Names& names) {
    return line("total", fmt::format("{} proc", totals.processes), "", "",
                fmt::format("{} open", totals.connections), "",
                numbers_of(totals.gained ? *totals.gained : totals.figures,
                           short_number(static_cast<double>(totals.in_flight)), gains),
                names);
}

std::string line_of(const Row& row, const Gains* gains, const Names& names) {
    const ConnectionSample& c = *row.connection;
    const std::string face = c.slot == counters::max_slots ? "(more)"
                             : c.kind == counters::SlotKind::channel
                                 ? printable(c.face).substr(0, 2) + "/pair"
                                 : printable(c.face);
    const std::string in_flight =
        c.in_flight ? short_number(static_cast<double>(*c.in_flight)) : "-";
    return line(fmt::format("{}", row.process->pid), printable(row.process->program), face,
                side_text(c.local_side), peer_text(c, names.peer), short_state(c.state),
                numbers_of(row.figures, in_flight, gains), names);
}

std::vector<Row> sorted_rows(const std::vector<ProcessSample>& processes, const Gains* gains) {
    std::vector<Row> rows;
    for (const ProcessSample& process : processes) {
        for (const ConnectionSample& connection : process.connections) {
            rows.push_back(
                {&process, &connection,
                 gains != nullptr ? gains->of(process, connection) : connection.figures});
        }
    }
    const auto busy = [](const Row& row) {
        return std::tuple(bytes_out(row.figures) + bytes_in(row.figures),
                          operations_out(row.figures) + operations_in(row.figures),
                          row.connection->live());
    };
    // Stable: what is equally busy keeps its place from one refresh to the next.
    std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) { return busy(a) > busy(b); });
    return rows;
}

} // namespace

std::vector<std::string> table(const std::vector<ProcessSample>& processes, const Gains* gains,
                               const Room& room) {
    const std::vector<Row> rows = sorted_rows(processes, gains);
    const Names names = names_for(room.columns);
    std::vector<std::string> lines;
    lines.push_back(headings(gains, names));
    lines.push_back(totals_line(total(processes, gains), gains, names));
    const std::size_t fits = room.rows - std::min(room.rows, lines.size());
    for (const Row& row : rows) {
        if (rows.size() > fits && lines.size() + 1 >= room.rows) {
            lines.push_back(fmt::format("... and {} more", rows.size() - (lines.size() - 2)));
            break;
        }
        lines.push_back(line_of(row, gains, names));
    }
    for (std::string& text : lines) {
        text.resize(std::min({text.size(), room.columns, text.find_last_not_of(' ') + 1}));
    }
    return lines;
}

} // namespace comch::stat
