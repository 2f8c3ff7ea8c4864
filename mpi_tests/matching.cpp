// How messages find their receives: wildcards, order, probes, truncation, cancelling, and messages
// that come before anybody asked for them.
#include "common.hpp"

using namespace mpi_tests;

namespace {

const std::vector<std::size_t> sizes = {0, 1, 100, 4000, 8192, 10000, 70000, 300000, mib};

int count_of(const MPI_Status& status) {
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    return count;
}

/// Every other rank sends `sizes`; the receiver takes what comes. For each rank in turn.
void any_source_any_tag(Session& s, bool any_source, bool any_tag, int base_tag) {
    for (int receiver = 0; receiver < s.size(); ++receiver) {
        const auto tag_of = [&](std::size_t i) { return base_tag + int(i); };
        if (s.rank() != receiver) {
            for (std::size_t i = 0; i < sizes.size(); ++i) {
                Buffer out(sizes[i]);
                MPI_Send(out.fill({s.rank(), receiver, tag_of(i)}, sizes[i]), int(sizes[i]),
                         MPI_BYTE, receiver, tag_of(i), MPI_COMM_WORLD);
                s.moved(sizes[i]);
            }
            s.barrier();
            continue;
        }
        std::vector<std::size_t> next(std::size_t(s.size()), 0); // per source
        Buffer in(sizes.back());
        in.arm_all();
        const auto total = sizes.size() * std::size_t(s.size() - 1);
        for (std::size_t received = 0; received < total; ++received) {
            // Where only one of the two is a wildcard, the other goes through all values in turn.
            const auto others = std::size_t(s.size() - 1);
            const auto fixed_other = int(received / sizes.size());
            const int source =
                any_source ? MPI_ANY_SOURCE : fixed_other + (fixed_other >= receiver);
            const int tag = any_tag ? MPI_ANY_TAG : tag_of(received / others);
            MPI_Status status;
            MPI_Recv(in.data(), int(sizes.back()), MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
            const int from = status.MPI_SOURCE;
            require(from >= 0 && from < s.size() && from != receiver,
                    "a wildcard receive got a message from rank {}", from);
            // Messages of one sender match in the order in which they were sent.
            const std::size_t index = next[std::size_t(from)]++;
            require(index < sizes.size() && status.MPI_TAG == tag_of(index) &&
                        count_of(status) == int(sizes[index]),
                    "message {} of rank {}: got tag {} and {} bytes, expected tag {}", index, from,
                    status.MPI_TAG, count_of(status), tag_of(index));
            in.verify_part("wildcard", {from, receiver, status.MPI_TAG}, sizes[index]);
        }
        s.barrier();
    }
}

/// Same source, same tag: never overtaking, whatever the sizes.
void order(Session& s) {
    constexpr int count = 300;
    const int tag = 77;
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::mt19937 random(12345); // the same for all: sender and receiver agree on the sizes
    std::vector<std::size_t> lengths;
    for (int i = 0; i < count; ++i) {
        lengths.push_back(random() % 10 == 0 ? random() % 100000 : random() % 300);
    }
    std::vector<Buffer> out;
    std::vector<Buffer> in;
    std::vector<MPI_Request> requests;
    for (int i = 0; i < count; ++i) {
        out.emplace_back(lengths[i]);
        in.emplace_back(lengths[i]);
    }
    // Half of the receives are posted before, half after the sends.
    const auto receive = [&](int i) {
        MPI_Irecv(in[i].arm(lengths[i]), int(lengths[i]), MPI_BYTE,
                  i % 3 == 0 ? MPI_ANY_SOURCE : from, i % 5 == 0 ? MPI_ANY_TAG : tag,
                  MPI_COMM_WORLD, &requests.emplace_back());
    };
    for (int i = 0; i < count / 2; ++i) {
        receive(i);
    }
    for (int i = 0; i < count; ++i) {
        MPI_Isend(out[i].fill({s.rank(), to, 10000 + i}, lengths[i]), int(lengths[i]), MPI_BYTE, to,
                  tag, MPI_COMM_WORLD, &requests.emplace_back());
        s.moved(lengths[i]);
    }
    for (int i = count / 2; i < count; ++i) {
        receive(i);
    }
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; ++i) {
        in[i].verify("order", {from, s.rank(), 10000 + i}, lengths[i]);
    }
}

enum class Probe { probe, iprobe, mprobe, improbe };

void probes(Session& s, Probe how, int base_tag) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::vector<Buffer> out;
    std::vector<MPI_Request> sends;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        out.emplace_back(sizes[i]);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = base_tag + int(i);
        MPI_Isend(out[i].fill({s.rank(), to, tag}, sizes[i]), int(sizes[i]), MPI_BYTE, to, tag,
                  MPI_COMM_WORLD, &sends.emplace_back());
        s.moved(sizes[i]);
    }
    // Last first: the others stay unexpected meanwhile.
    for (std::size_t i = sizes.size(); i-- > 0;) {
        const int tag = base_tag + int(i);
        const int source = i % 2 == 0 ? from : MPI_ANY_SOURCE;
        MPI_Status status;
        MPI_Message message = MPI_MESSAGE_NULL;
        int found = 0;
        switch (how) {
        case Probe::probe:
            MPI_Probe(source, tag, MPI_COMM_WORLD, &status);
            break;
        case Probe::iprobe:
            while (found == 0) {
                MPI_Iprobe(source, tag, MPI_COMM_WORLD, &found, &status);
            }
            break;
        case Probe::mprobe:
            MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &status);
            break;
        case Probe::improbe:
            while (found == 0) {
                MPI_Improbe(source, tag, MPI_COMM_WORLD, &found, &message, &status);
            }
            break;
        }
        require(status.MPI_SOURCE == from && status.MPI_TAG == tag &&
                    count_of(status) == int(sizes[i]),
                "a probe for tag {} of rank {} saw tag {} of rank {}, {} bytes instead of {}", tag,
                from, status.MPI_TAG, status.MPI_SOURCE, count_of(status), sizes[i]);
        Buffer in(sizes[i]);
        in.arm(sizes[i]);
        if (how == Probe::mprobe) {
            MPI_Mrecv(in.data(), int(sizes[i]), MPI_BYTE, &message, &status);
        } else if (how == Probe::improbe) {
            MPI_Request request;
            MPI_Imrecv(in.data(), int(sizes[i]), MPI_BYTE, &message, &request);
            MPI_Wait(&request, &status);
        } else {
            MPI_Recv(in.data(), int(sizes[i]), MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD,
                     &status);
        }
        in.verify("probed", {from, s.rank(), tag}, sizes[i]);
    }
    MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);

    int found = 1;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, base_tag + 90, MPI_COMM_WORLD, &found, &status);
    require(found == 0, "a probe found a message under tag {} that nobody sent", base_tag + 90);
}

/// A message longer than the receive: an error there, nothing written behind the buffer, and
/// everything after it in order.
void truncation(Session& s) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    // MPICH 4.0 raises errors of a completion on no communicator in particular.
    for (const MPI_Comm each : {comm, MPI_COMM_WORLD, MPI_COMM_SELF}) {
        MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
    }
    int tag = 100;
    for (const std::size_t size : {2, 100, 5000, 9000, 70000, 1 << 20}) {
        for (const std::size_t room : {std::size_t{0}, size / 2, size - 1}) {
            for (const bool unexpected : {false, true}) {
                tag += 2;
                Buffer out(size);
                Buffer in(room);
                in.arm(room);
                out.fill({s.rank(), to, tag}, size);
                MPI_Request receive = MPI_REQUEST_NULL;
                MPI_Request send = MPI_REQUEST_NULL;
                MPI_Status status;
                const auto post = [&] {
                    return MPI_Irecv(in.data(), int(room), MPI_BYTE, from, tag, comm, &receive);
                };
                const auto start_send = [&] {
                    MPI_Isend(out.data(), int(size), MPI_BYTE, to, tag, comm, &send);
                    s.moved(0); // how much of it travels is up to the protocol
                };
                int code = MPI_SUCCESS;
                if (unexpected) {
                    start_send();
                    MPI_Probe(from, tag, comm, MPI_STATUS_IGNORE);
                    code = post();
                } else {
                    code = post();
                    s.barrier();
                    start_send();
                }
                if (code == MPI_SUCCESS) {
                    code = MPI_Wait(&receive, &status);
                }
                require(mpi_error_class(code) == MPI_ERR_TRUNCATE,
                        "{} bytes for a receive of {} bytes ({}): expected MPI_ERR_TRUNCATE, got "
                        "{}",
                        size, room, unexpected ? "unexpected" : "posted",
                        code == MPI_SUCCESS ? "no error" : mpi_error(code));
                MPI_Wait(&send, MPI_STATUS_IGNORE);
                // What did arrive must not reach past the buffer.
                const Key key{from, s.rank(), tag};
                Pattern(key).fill(in.first(room));
                in.verify("truncation", key, room);

                // The next message is whole.
                Buffer after(size);
                out.fill({s.rank(), to, tag + 1}, size);
                MPI_Sendrecv(out.data(), int(size), MPI_BYTE, to, tag + 1, after.arm(size),
                             int(size), MPI_BYTE, from, tag + 1, comm, MPI_STATUS_IGNORE);
                s.moved(size);
                after.verify("after a truncation", {from, s.rank(), tag + 1}, size);
            }
        }
    }
    for (const MPI_Comm each : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
        MPI_Comm_set_errhandler(each, MPI_ERRORS_ARE_FATAL);
    }
    MPI_Comm_free(&comm);
}

/// A cancelled receive matches nothing; the message goes to the next receive.
void cancel_receives(Session& s) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = 500 + int(i);
        Buffer cancelled(sizes[i]);
        std::memset(cancelled.arm(sizes[i]), 0x5c, sizes[i]);
        MPI_Request request;
        MPI_Irecv(cancelled.data(), int(sizes[i]), MPI_BYTE, i % 2 == 0 ? from : MPI_ANY_SOURCE,
                  i % 3 == 0 ? MPI_ANY_TAG : tag, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Status status;
        MPI_Wait(&request, &status);
        int is_cancelled = 0;
        MPI_Test_cancelled(&status, &is_cancelled);
        require(is_cancelled != 0, "a receive that nothing could match was not cancelled");
        s.barrier(); // everybody has cancelled before anybody sends

        Buffer out(sizes[i]);
        Buffer in(sizes[i]);
        MPI_Sendrecv(out.fill({s.rank(), to, tag}, sizes[i]), int(sizes[i]), MPI_BYTE, to, tag,
                     in.arm(sizes[i]), int(sizes[i]), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        s.moved(sizes[i]);
        in.verify("after a cancelled receive", {from, s.rank(), tag}, sizes[i]);
        for (std::size_t b = 0; b < sizes[i]; ++b) {
            require(cancelled.data()[b] == std::byte{0x5c},
                    "a cancelled receive of {} bytes was written to at byte {}", sizes[i], b);
        }
    }
}

/// Thousands of messages before the first receive, taken in another order than sent.
void unexpected_storm(Session& s) {
    constexpr int count = 2000;
    constexpr int classes = 7; // tags; order holds within one
    const int base_tag = 900;
    const auto size_of = [](int i) { return std::size_t(i * 131 % 997); };
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::vector<Buffer> out;
    std::vector<MPI_Request> sends;
    for (int i = 0; i < count; ++i) {
        out.emplace_back(size_of(i));
    }
    for (int i = 0; i < count; ++i) {
        MPI_Isend(out[i].fill({s.rank(), to, i}, size_of(i)), int(size_of(i)), MPI_BYTE, to,
                  base_tag + i % classes, MPI_COMM_WORLD, &sends.emplace_back());
        s.moved(size_of(i));
    }
    // The neighbour's last message is on its way before the first receive is posted.
    s.barrier();
    Buffer in(1000);
    for (int tag_class = classes; tag_class-- > 0;) {
        for (int i = tag_class; i < count; i += classes) {
            MPI_Status status;
            in.arm(size_of(i));
            MPI_Recv(in.data(), int(size_of(i)), MPI_BYTE, i % 2 == 0 ? from : MPI_ANY_SOURCE,
                     base_tag + tag_class, MPI_COMM_WORLD, &status);
            require(count_of(status) == int(size_of(i)),
                    "unexpected message {} of rank {}: {} bytes instead of {}", i, from,
                    count_of(status), size_of(i));
            in.verify("unexpected storm", {from, s.rank(), i}, size_of(i));
        }
    }
    MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
}

/// The same with messages that are too large to be sent before they are asked for.
void unexpected_large(Session& s) {
    constexpr int count = 20;
    constexpr std::size_t size = 300000;
    std::vector<Buffer> out(count, Buffer(size));
    std::vector<MPI_Request> sends;
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (int i = 0; i < count; ++i) {
        MPI_Isend(out[i].fill({s.rank(), to, 1000 + i}, size), int(size), MPI_BYTE, to, 1000 + i,
                  MPI_COMM_WORLD, &sends.emplace_back());
        s.moved(size);
    }
    s.barrier();
    Buffer in(size);
    for (int i = count; i-- > 0;) {
        MPI_Recv(in.arm(size), int(size), MPI_BYTE, from, 1000 + i, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        in.verify("unexpected large", {from, s.rank(), 1000 + i}, size);
    }
    MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "matching");
    s.group("any source", [&] { any_source_any_tag(s, true, false, 100); });
    s.group("any tag", [&] { any_source_any_tag(s, false, true, 200); });
    s.group("any source and any tag", [&] { any_source_any_tag(s, true, true, 300); });
    s.group("order", [&] { order(s); });
    s.group("probe", [&] { probes(s, Probe::probe, 2000); });
    s.group("iprobe", [&] { probes(s, Probe::iprobe, 2100); });
    s.group("mprobe", [&] { probes(s, Probe::mprobe, 2200); });
    s.group("improbe", [&] { probes(s, Probe::improbe, 2300); });
    s.group("truncation", [&] { truncation(s); });
    s.group("cancelled receives", [&] { cancel_receives(s); });
    s.group("unexpected storm", [&] { unexpected_storm(s); });
    s.group("unexpected large messages", [&] { unexpected_large(s); });
    return s.finish();
}
