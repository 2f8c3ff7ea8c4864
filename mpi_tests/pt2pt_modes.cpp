// The send modes and kinds of requests of point-to-point communication, and what each promises.
#include <cerrno>
#include <cstring>
#include <span>

#include <sys/mman.h>

#include "common.hpp"

using namespace mpi_tests;

namespace {

/// Sizes on both sides of every protocol switch that a transport is likely to have.
const std::vector<std::size_t> sizes = {0,    1,     8,     100,    1000,    4096,
                                        8193, 16384, 65536, 262145, 1048576, 2 * mib + 5};

void synchronous_waits_for_receiver(Session& s) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = 100 + int(i);
        const int go_tag = 200 + int(i);
        Buffer out(sizes[i]);
        Buffer in(sizes[i]);
        MPI_Request send;
        MPI_Issend(out.fill({s.rank(), to, tag}, sizes[i]), int(sizes[i]), MPI_BYTE, to, tag,
                   MPI_COMM_WORLD, &send);
        s.moved(sizes[i]);
        // The receiver posts its receive only after the go below: until then this must not end.
        for (int poll = 0; poll < 200; ++poll) {
            int done = 0;
            MPI_Test(&send, &done, MPI_STATUS_IGNORE);
            require(done == 0,
                    "a synchronous send of {} bytes to rank {} completed before its receive was "
                    "posted",
                    sizes[i], to);
        }
        MPI_Sendrecv(nullptr, 0, MPI_BYTE, to, go_tag, nullptr, 0, MPI_BYTE, from, go_tag,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        s.moved(0);
        MPI_Recv(in.arm(sizes[i]), int(sizes[i]), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        in.verify("synchronous", {from, s.rank(), tag}, sizes[i]);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

void ready_after_handshake(Session& s) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = 300 + int(i);
        const int ready_tag = 400 + int(i);
        Buffer out(sizes[i]);
        Buffer in(sizes[i]);
        MPI_Request receive;
        MPI_Irecv(in.arm(sizes[i]), int(sizes[i]), MPI_BYTE, from, tag, MPI_COMM_WORLD, &receive);
        // Tell the sender that the receive is posted, and hear the same from the receiver.
        MPI_Sendrecv(nullptr, 0, MPI_BYTE, from, ready_tag, nullptr, 0, MPI_BYTE, to, ready_tag,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        s.moved(0);
        out.fill({s.rank(), to, tag}, sizes[i]);
        if (i % 2 == 0) {
            MPI_Rsend(out.data(), int(sizes[i]), MPI_BYTE, to, tag, MPI_COMM_WORLD);
        } else {
            MPI_Request send;
            MPI_Irsend(out.data(), int(sizes[i]), MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
        }
        s.moved(sizes[i]);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        in.verify("ready", {from, s.rank(), tag}, sizes[i]);
    }
}

void buffered(Session& s) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::size_t needed = 0;
    for (const std::size_t size : sizes) {
        needed += size + MPI_BSEND_OVERHEAD + 64;
    }
    for (int round = 0; round < 2; ++round) {
        std::vector<std::byte> attached(needed);
        MPI_Buffer_attach(attached.data(), int(attached.size()));
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const int tag = 500 + 50 * round + int(i);
            Buffer out(sizes[i]);
            out.fill({s.rank(), to, tag}, sizes[i]);
            if (round == 0) {
                MPI_Bsend(out.data(), int(sizes[i]), MPI_BYTE, to, tag, MPI_COMM_WORLD);
            } else {
                MPI_Request send;
                MPI_Ibsend(out.data(), int(sizes[i]), MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
                MPI_Wait(&send, MPI_STATUS_IGNORE);
            }
            s.moved(sizes[i]);
            // The user's buffer is free again at once; what is sent must be the copy.
            std::memset(out.data(), 0xff, sizes[i]);
        }
        for (std::size_t i = sizes.size(); i-- > 0;) {
            const int tag = 500 + 50 * round + int(i);
            Buffer in(sizes[i]);
            MPI_Recv(in.arm(sizes[i]), int(sizes[i]), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            in.verify("buffered", {from, s.rank(), tag}, sizes[i]);
        }
        void* detached = nullptr;
        int detached_size = 0;
        MPI_Buffer_detach(&detached, &detached_size);
        require(detached == attached.data() && detached_size == int(attached.size()),
                "MPI_Buffer_detach returned another buffer ({} bytes) than was attached ({} bytes)",
                detached_size, attached.size());
    }
}

using Init = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

void persistent(Session& s, const char* what, Init init, bool is_ready_mode, int base_tag) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    const auto count = sizes.size();
    std::vector<Buffer> out;
    std::vector<Buffer> in;
    std::vector<MPI_Request> sends(count);
    std::vector<MPI_Request> receives(count);
    for (std::size_t i = 0; i < count; ++i) {
        out.emplace_back(sizes[i]);
        in.emplace_back(sizes[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
        const int tag = base_tag + int(i);
        init(out[i].data(), int(sizes[i]), MPI_BYTE, to, tag, MPI_COMM_WORLD, &sends[i]);
        MPI_Recv_init(in[i].data(), int(sizes[i]), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                      &receives[i]);
    }
    for (int round = 0; round < 5; ++round) {
        // The content changes from round to round; the envelope does not.
        const auto content = [&](std::size_t i) { return base_tag + int(i) + 100000 * round; };
        for (std::size_t i = 0; i < count; ++i) {
            out[i].fill({s.rank(), to, content(i)}, sizes[i]);
            in[i].arm(sizes[i]);
        }
        MPI_Startall(int(count), receives.data());
        if (is_ready_mode) {
            MPI_Sendrecv(nullptr, 0, MPI_BYTE, from, base_tag + 99, nullptr, 0, MPI_BYTE, to,
                         base_tag + 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (round % 2 == 0) {
            MPI_Startall(int(count), sends.data());
        } else {
            for (auto& send : sends) {
                MPI_Start(&send);
            }
        }
        MPI_Waitall(int(count), receives.data(), MPI_STATUSES_IGNORE);
        MPI_Waitall(int(count), sends.data(), MPI_STATUSES_IGNORE);
        for (std::size_t i = 0; i < count; ++i) {
            s.moved(sizes[i]);
            in[i].verify(what, {from, s.rank(), content(i)}, sizes[i]);
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        MPI_Request_free(&sends[i]);
        MPI_Request_free(&receives[i]);
    }
}

void persistent_in_other_modes(Session& s) {
    persistent(s, "persistent", MPI_Send_init, false, 1000);
    persistent(s, "persistent synchronous", MPI_Ssend_init, false, 1100);
    persistent(s, "persistent ready", MPI_Rsend_init, true, 1200);
}

void persistent_buffered(Session& s) {
    std::size_t needed = 0;
    for (const std::size_t size : sizes) {
        needed += size + MPI_BSEND_OVERHEAD + 64;
    }
    std::vector<std::byte> attached(5 * needed);
    MPI_Buffer_attach(attached.data(), int(attached.size()));
    persistent(s, "persistent buffered", MPI_Bsend_init, false, 1300);
    void* detached = nullptr;
    int detached_size = 0;
    MPI_Buffer_detach(&detached, &detached_size);
}

void replace(Session& s) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = 2000 + int(i);
        Buffer both(sizes[i]);
        both.arm(sizes[i]);
        both.fill({s.rank(), to, tag}, sizes[i]);
        MPI_Sendrecv_replace(both.data(), int(sizes[i]), MPI_BYTE, to, tag, from, tag,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        s.moved(sizes[i]);
        both.verify("sendrecv_replace", {from, s.rank(), tag}, sizes[i]);
    }
}

enum class Completion { waitany, waitsome, testall, testany, testsome };

/// Many requests in flight, completed in every way that there is.
void completions(Session& s, Completion how, int base_tag) {
    constexpr int count = 64;
    const auto size_of = [](int i) { return std::size_t(i) * std::size_t(i) * 37 % 70000; };
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::vector<Buffer> out;
    std::vector<Buffer> in;
    for (int i = 0; i < count; ++i) {
        out.emplace_back(size_of(i));
        in.emplace_back(size_of(i));
    }
    std::vector<MPI_Request> requests(2 * count); // receives, then sends
    for (int i = 0; i < count; ++i) {
        MPI_Irecv(in[i].arm(size_of(i)), int(size_of(i)), MPI_BYTE, from, base_tag + i,
                  MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = count; i-- > 0;) {
        MPI_Isend(out[i].fill({s.rank(), to, base_tag + i}, size_of(i)), int(size_of(i)), MPI_BYTE,
                  to, base_tag + i, MPI_COMM_WORLD, &requests[count + i]);
        s.moved(size_of(i));
    }
    int left = 2 * count;
    std::vector<int> seen(2 * count);
    const auto completed = [&](int index) {
        require(index >= 0 && index < 2 * count, "a completion names request {} of {}", index,
                2 * count);
        require(++seen[index] == 1, "request {} was completed twice", index);
        if (index < count) {
            in[index].verify("completions", {from, s.rank(), base_tag + index}, size_of(index));
        }
        --left;
    };
    std::vector<int> indices(2 * count);
    while (left > 0) {
        int number = 0;
        switch (how) {
        case Completion::waitany:
            MPI_Waitany(2 * count, requests.data(), &number, MPI_STATUS_IGNORE);
            completed(number);
            break;
        case Completion::testany: {
            int done = 0;
            MPI_Testany(2 * count, requests.data(), &number, &done, MPI_STATUS_IGNORE);
            if (done != 0) {
                completed(number);
            }
            break;
        }
        case Completion::waitsome:
            MPI_Waitsome(2 * count, requests.data(), &number, indices.data(), MPI_STATUSES_IGNORE);
            for (int i = 0; i < number; ++i) {
                completed(indices[i]);
            }
            break;
        case Completion::testsome:
            MPI_Testsome(2 * count, requests.data(), &number, indices.data(), MPI_STATUSES_IGNORE);
            for (int i = 0; i < number; ++i) {
                completed(indices[i]);
            }
            break;
        case Completion::testall:
            MPI_Testall(2 * count, requests.data(), &number, MPI_STATUSES_IGNORE);
            if (number != 0) {
                for (int i = 0; i < 2 * count; ++i) {
                    completed(i);
                }
            }
            break;
        }
    }
}

void to_oneself_and_nobody(Session& s) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int tag = 4000 + int(i);
        Buffer out(sizes[i]);
        Buffer in(sizes[i]);
        MPI_Request receive;
        MPI_Irecv(in.arm(sizes[i]), int(sizes[i]), MPI_BYTE, s.rank(), tag, MPI_COMM_WORLD,
                  &receive);
        MPI_Send(out.fill({s.rank(), s.rank(), tag}, sizes[i]), int(sizes[i]), MPI_BYTE, s.rank(),
                 tag, MPI_COMM_WORLD);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        in.verify("to oneself, receive first", {s.rank(), s.rank(), tag}, sizes[i]);

        MPI_Request send;
        MPI_Isend(out.data(), int(sizes[i]), MPI_BYTE, s.rank(), tag, MPI_COMM_WORLD, &send);
        std::memset(in.arm(sizes[i]), 0, sizes[i]);
        MPI_Recv(in.data(), int(sizes[i]), MPI_BYTE, s.rank(), tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        in.verify("to oneself, send first", {s.rank(), s.rank(), tag}, sizes[i]);
    }
    MPI_Status status;
    char nothing = 'x';
    MPI_Sendrecv(&nothing, 1, MPI_CHAR, MPI_PROC_NULL, 0, &nothing, 1, MPI_CHAR, MPI_PROC_NULL, 0,
                 MPI_COMM_WORLD, &status);
    int got = -1;
    MPI_Get_count(&status, MPI_CHAR, &got);
    require(status.MPI_SOURCE == MPI_PROC_NULL && got == 0 && nothing == 'x',
            "a receive from MPI_PROC_NULL got {} bytes", got);
}

/// A transport may remember what it has told a device of a buffer's pages. Other pages at the same
/// addresses are other memory.
void from_memory_that_is_mapped_anew(Session& s) {
    constexpr std::size_t size = 2 * mib;
    constexpr int rounds = 6;
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    void* where = nullptr;
    for (int round = 0; round < rounds; ++round) {
        const int tag = 500 + round;
        void* const memory =
            mmap(where, 2 * size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | (where != nullptr ? MAP_FIXED_NOREPLACE : 0), -1, 0);
        require(memory != MAP_FAILED, "cannot map {} bytes at {}: {}", 2 * size, where,
                std::strerror(errno));
        where = memory;
        const std::span out(static_cast<std::byte*>(memory), size);
        const std::span in(out.data() + size, size);
        Pattern({s.rank(), to, tag}).fill(out);
        MPI_Sendrecv(out.data(), int(size), MPI_BYTE, to, tag, in.data(), int(size), MPI_BYTE, from,
                     tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        s.moved(size);
        verify("from memory that is mapped anew", {from, s.rank(), tag}, in);
        require(munmap(memory, 2 * size) == 0, "cannot unmap: {}", std::strerror(errno));
    }
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "pt2pt_modes");
    s.group("synchronous waits for its receiver", [&] { synchronous_waits_for_receiver(s); });
    s.group("ready after a handshake", [&] { ready_after_handshake(s); });
    s.group("buffered", [&] { buffered(s); });
    s.group("persistent buffered", [&] { persistent_buffered(s); });
    s.group("persistent, other modes", [&] { persistent_in_other_modes(s); });
    s.group("sendrecv_replace", [&] { replace(s); });
    s.group("waitany, waitsome, testany, testsome, testall", [&] {
        completions(s, Completion::waitany, 3000);
        completions(s, Completion::waitsome, 3100);
        completions(s, Completion::testany, 3200);
        completions(s, Completion::testsome, 3300);
        completions(s, Completion::testall, 3400);
    });
    s.group("to oneself and to nobody", [&] { to_oneself_and_nobody(s); });
    s.group("from memory that is mapped anew", [&] { from_memory_that_is_mapped_anew(s); });
    return s.finish();
}
