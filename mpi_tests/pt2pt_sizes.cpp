// Point-to-point messages of every size, in every plain way of sending and receiving.
//
//   --max-size BYTES   largest message of the sweeps that all ranks make at once
//   --huge             also messages of 1 GiB and of more than 2^31 bytes (needs 5 GiB of memory)
#include "common.hpp"

using namespace mpi_tests;

namespace {

/// Tags tell the cases apart, so that a message of one case cannot pass for one of another.
int tag_of(int base, std::size_t index) {
    return base + int(index);
}

void blocking_ring(Session& s, const std::vector<std::size_t>& sizes) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    Buffer out(sizes.back());
    Buffer in(sizes.back());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = tag_of(1000, i);
        const int count = int(sizes[i]);
        out.fill({s.rank(), to, tag}, sizes[i]);
        in.arm(sizes[i]);
        const auto receive = [&] {
            MPI_Status status;
            MPI_Recv(in.data(), count, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
            int got = -1;
            MPI_Get_count(&status, MPI_BYTE, &got);
            require(got == count && status.MPI_SOURCE == from && status.MPI_TAG == tag,
                    "blocking ring: the status says {} bytes, source {}, tag {}; expected {}, {}, "
                    "{}",
                    got, status.MPI_SOURCE, status.MPI_TAG, count, from, tag);
        };
        // Odd ranks receive first: however a blocking send waits, somebody receives.
        if (s.rank() % 2 == 1) {
            receive();
        }
        MPI_Send(out.data(), count, MPI_BYTE, to, tag, MPI_COMM_WORLD);
        s.moved(sizes[i]);
        if (s.rank() % 2 == 0) {
            receive();
        }
        in.verify("blocking ring", {from, s.rank(), tag}, sizes[i]);
    }
}

void synchronous_ring(Session& s, const std::vector<std::size_t>& sizes) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    Buffer out(sizes.back());
    Buffer in(sizes.back());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = tag_of(2000, i);
        out.fill({s.rank(), to, tag}, sizes[i]);
        in.arm(sizes[i]);
        const auto receive = [&] {
            MPI_Recv(in.data(), int(sizes[i]), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        };
        if (s.rank() % 2 == 1) {
            receive();
        }
        MPI_Ssend(out.data(), int(sizes[i]), MPI_BYTE, to, tag, MPI_COMM_WORLD);
        s.moved(sizes[i]);
        if (s.rank() % 2 == 0) {
            receive();
        }
        in.verify("synchronous ring", {from, s.rank(), tag}, sizes[i]);
    }
}

void sendrecv_both_ways(Session& s, const std::vector<std::size_t>& sizes) {
    for (const int distance : {1, -1}) {
        const int to = s.neighbour(distance);
        const int from = s.neighbour(-distance);
        // Odd addresses: alignment is nothing a transport may count on.
        Buffer out(sizes.back(), 3);
        Buffer in(sizes.back(), 1);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const int tag = tag_of(distance > 0 ? 3000 : 3500, i);
            out.fill({s.rank(), to, tag}, sizes[i]);
            in.arm(sizes[i]);
            MPI_Sendrecv(out.data(), int(sizes[i]), MPI_BYTE, to, tag, in.data(), int(sizes[i]),
                         MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            s.moved(sizes[i]);
            in.verify("sendrecv", {from, s.rank(), tag}, sizes[i]);
        }
    }
}

/// All sizes in flight at once, received in the opposite order.
void nonblocking_window(Session& s, const std::vector<std::size_t>& sizes) {
    const int to = s.neighbour(s.size() / 2);
    const int from = s.neighbour(-(s.size() / 2));
    std::vector<Buffer> out;
    std::vector<Buffer> in;
    std::vector<MPI_Request> requests;
    for (const std::size_t size : sizes) {
        out.emplace_back(size);
        in.emplace_back(size);
    }
    for (std::size_t i = sizes.size(); i-- > 0;) {
        MPI_Irecv(in[i].arm(sizes[i]), int(sizes[i]), MPI_BYTE, from, tag_of(4000, i),
                  MPI_COMM_WORLD, &requests.emplace_back());
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = tag_of(4000, i);
        MPI_Isend(out[i].fill({s.rank(), to, tag}, sizes[i]), int(sizes[i]), MPI_BYTE, to, tag,
                  MPI_COMM_WORLD, &requests.emplace_back());
        s.moved(sizes[i]);
    }
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        in[i].verify("nonblocking window", {from, s.rank(), tag_of(4000, i)}, sizes[i]);
    }
}

/// Every rank with every other at once, itself included.
void all_pairs(Session& s) {
    const std::vector<std::size_t> sizes = {0, 1, 8, 63, 64, 65, 200, 1023, 4096, 8191, 20000};
    const auto n = std::size_t(s.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = tag_of(5000, i);
        std::vector<Buffer> out(n, Buffer(sizes[i]));
        std::vector<Buffer> in(n, Buffer(sizes[i]));
        std::vector<MPI_Request> requests;
        for (int peer = 0; peer < s.size(); ++peer) {
            MPI_Irecv(in[std::size_t(peer)].arm(sizes[i]), int(sizes[i]), MPI_BYTE, peer, tag,
                      MPI_COMM_WORLD, &requests.emplace_back());
        }
        for (int distance = 0; distance < s.size(); ++distance) {
            const int peer = s.neighbour(distance);
            MPI_Isend(out[std::size_t(peer)].fill({s.rank(), peer, tag}, sizes[i]), int(sizes[i]),
                      MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests.emplace_back());
            s.moved_to(peer, sizes[i]);
        }
        MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < s.size(); ++peer) {
            in[std::size_t(peer)].verify("all pairs", {peer, s.rank(), tag}, sizes[i]);
        }
    }
}

/// The first rank and the last, up to 16 MiB, whatever the number of ranks.
void one_pair(Session& s) {
    const int last = s.size() - 1;
    if (s.rank() != 0 && s.rank() != last) {
        return;
    }
    const int peer = last - s.rank();
    const auto sizes = sweep_sizes(16 * mib);
    Buffer out(sizes.back());
    Buffer in(sizes.back());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = tag_of(6000, i);
        out.fill({s.rank(), peer, tag}, sizes[i]);
        MPI_Request request;
        MPI_Irecv(in.arm(sizes[i]), int(sizes[i]), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request);
        MPI_Send(out.data(), int(sizes[i]), MPI_BYTE, peer, tag, MPI_COMM_WORLD);
        s.moved(sizes[i]);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        in.verify("one pair", {peer, s.rank(), tag}, sizes[i]);
    }
}

/// One message of `blocks` MiB from the first rank to the last.
void huge(Session& s, int blocks, bool as_bytes) {
    const int last = s.size() - 1;
    if (s.rank() != 0 && s.rank() != last) {
        return;
    }
    const std::size_t size = std::size_t(blocks) * mib;
    const int tag = 7000 + blocks;
    MPI_Datatype type = MPI_BYTE;
    int count = int(size);
    if (!as_bytes) {
        MPI_Type_contiguous(int(mib), MPI_BYTE, &type);
        MPI_Type_commit(&type);
        count = blocks;
    }
    Buffer buffer(size);
    if (s.rank() == 0) {
        buffer.fill({0, last, tag}, size);
        MPI_Send(buffer.data(), count, type, last, tag, MPI_COMM_WORLD);
        s.moved(size);
    } else {
        MPI_Status status;
        MPI_Recv(buffer.arm(size), count, type, 0, tag, MPI_COMM_WORLD, &status);
        MPI_Count got = 0;
        MPI_Get_elements_x(&status, MPI_BYTE, &got);
        require(got == MPI_Count(size), "huge: the status says {} bytes, expected {}", got, size);
        buffer.verify("huge", {0, last, tag}, size);
    }
    if (!as_bytes) {
        MPI_Type_free(&type);
    }
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "pt2pt_sizes");
    // All ranks at once: what is moved grows with their number, the machine does not.
    const std::size_t fallback = s.size() <= 2 ? 16 * mib : s.size() <= 4 ? 4 * mib : mib;
    const std::size_t largest = std::stoull(s.option("--max-size", std::to_string(fallback)));
    const auto sizes = sweep_sizes(largest);

    s.group("blocking ring", [&] { blocking_ring(s, sizes); });
    s.group("synchronous ring", [&] { synchronous_ring(s, sizes); });
    s.group("sendrecv both ways, odd addresses", [&] { sendrecv_both_ways(s, sizes); });
    s.group("nonblocking window", [&] { nonblocking_window(s, sizes); });
    s.group("all pairs", [&] { all_pairs(s); });
    s.group("one pair, up to 16 MiB", [&] { one_pair(s); });
    if (s.flag("--huge")) {
        s.group("one message of 1 GiB", [&] { huge(s, 1024, true); });
        s.group("one message of 2 GiB and 1 MiB", [&] { huge(s, 2049, false); });
    }
    return s.finish();
}
