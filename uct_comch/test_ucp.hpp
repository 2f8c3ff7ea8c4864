// What the UCP tests share: processes on the two sides, joined by endpoints, that run one body.
#pragma once

#include <algorithm>
#include <atomic>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "test_process.hpp"
#include "test_uct.hpp"

namespace comch::uct::test {

struct JobOptions {
    bool error_handling = false; ///< endpoints with peer error handling
    bool wakeup = false;
    ucs_thread_mode_t threads = UCS_THREAD_MODE_SINGLE;
    Settings environment = {}; ///< in addition to UCX_TLS=comch
    unsigned processes = 2;
    bool quiet = true; ///< a line at warning level or above is a failure
};

/// One process of a job, and its endpoints to the others.
class Party {
public:
    Party(unsigned rank, std::vector<Line>& lines, const JobOptions& options)
        : rank_(rank), lines_(lines), options_(options) {
        ::setenv("UCX_TLS", "comch", 1);
        ::setenv("COMCH_SIDE", rank % 2 == 0 ? "host" : "dpu", 1);
        for (const auto& [name, value] : options.environment) {
            ::setenv(name.c_str(), value.c_str(), 1);
        }
        ucp_config_t* config = nullptr;
        check_ok(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 |
                          UCP_FEATURE_AMO64 | UCP_FEATURE_STREAM | UCP_FEATURE_AM |
                          (options.wakeup ? UCP_FEATURE_WAKEUP : 0);
        params.mt_workers_shared = 1;
        check_ok(ucp_init(&params, config, &context), "ucp_init");
        ucp_config_release(config);
        worker = make_worker();
        endpoints_.resize(lines.size());
        exchange();
    }
    ~Party() {
        for (const ucp_ep_h ep : endpoints_) {
            close(ep);
        }
        barrier(); // nobody leaves while somebody flushes to him
        ucp_worker_destroy(worker);
        ucp_cleanup(context);
    }
    Party(const Party&) = delete;
    Party& operator=(const Party&) = delete;

    [[nodiscard]] unsigned rank() const { return rank_; }
    [[nodiscard]] bool first() const { return rank_ == 0; }
    [[nodiscard]] ucp_ep_h ep(unsigned to) const { return endpoints_.at(to); }
    /// Of a job of two: the endpoint to, and the line to, the other.
    [[nodiscard]] ucp_ep_h ep() const { return endpoints_.at(1 - rank_); }
    [[nodiscard]] Line& line() { return lines_.at(1 - rank_); }

    [[nodiscard]] ucp_worker_h make_worker() const {
        ucp_worker_params_t params{};
        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        params.thread_mode = options_.threads;
        ucp_worker_h made = nullptr;
        check_ok(ucp_worker_create(context, &params, &made), "ucp_worker_create");
        return made;
    }
    [[nodiscard]] static std::vector<char> address(ucp_worker_h of) {
        ucp_address_t* address = nullptr;
        std::size_t length = 0;
        check_ok(ucp_worker_get_address(of, &address, &length), "ucp_worker_get_address");
        const char* bytes = reinterpret_cast<const char*>(address);
        std::vector<char> copy(bytes, bytes + length);
        ucp_worker_release_address(of, address);
        return copy;
    }
    [[nodiscard]] ucp_ep_h connect(ucp_worker_h from, const std::vector<char>& to) {
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(to.data());
        if (options_.error_handling) {
            params.field_mask |=
                UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
            params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
            params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t status) {
                static_cast<Party*>(arg)->errors.push_back(status);
            };
            params.err_handler.arg = this;
        }
        ucp_ep_h ep = nullptr;
        check_ok(ucp_ep_create(from, &params, &ep), "ucp_ep_create");
        return ep;
    }
    void close(ucp_ep_h ep, ucp_worker_h of = nullptr, unsigned flags = 0) {
        if (ep == nullptr) {
            return;
        }
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = flags;
        EXPECT_EQ(wait(ucp_ep_close_nbx(ep, &param), of), UCS_OK) << "closing";
    }

    /// Progresses until the request is done; its status.
    ucs_status_t wait(ucs_status_ptr_t request, ucp_worker_h of = nullptr) {
        if (!UCS_PTR_IS_PTR(request)) {
            return UCS_PTR_STATUS(request);
        }
        const auto deadline = std::chrono::steady_clock::now() + patience;
        ucs_status_t status = UCS_INPROGRESS;
        for (unsigned turn = 1; status == UCS_INPROGRESS; ++turn) {
            progress(of);
            status = ucp_request_check_status(request);
            if (turn % 1024 == 0 && std::chrono::steady_clock::now() > deadline) {
                throw std::runtime_error("a request never completes");
            }
        }
        ucp_request_free(request);
        return status;
    }
    void progress(ucp_worker_h of = nullptr) {
        if (ucp_worker_progress(of != nullptr ? of : worker) == 0) {
            std::this_thread::yield();
        }
    }
    template <class Done> bool until(Done done) {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        for (unsigned turn = 1; !done(); ++turn) {
            progress();
            if (turn % 1024 == 0 && std::chrono::steady_clock::now() > deadline) {
                return false;
            }
        }
        return true;
    }
    /// All processes have come here; progresses meanwhile.
    void barrier() {
        for (unsigned i = 0; i < lines_.size(); ++i) {
            if (i != rank_) {
                lines_[i].put('b');
            }
        }
        for (unsigned i = 0; i < lines_.size(); ++i) {
            if (i != rank_) {
                if (!until([&] { return lines_[i].has_something(); })) {
                    throw std::runtime_error("a barrier is never reached");
                }
                (void)lines_[i].get<char>();
            }
        }
    }

    // ---- operations on the first worker -------------------------------------------------------

    ucs_status_ptr_t send(ucp_ep_h to, const void* data, std::size_t count, ucp_tag_t tag,
                          ucp_datatype_t type = ucp_dt_make_contig(1), bool sync = false) {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = type;
        return sync ? ucp_tag_send_sync_nbx(to, data, count, tag, &param)
                    : ucp_tag_send_nbx(to, data, count, tag, &param);
    }
    ucs_status_ptr_t receive(void* data, std::size_t count, ucp_tag_t tag,
                             ucp_datatype_t type = ucp_dt_make_contig(1),
                             ucp_tag_t mask = ~ucp_tag_t{0}, ucp_worker_h of = nullptr) {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = type;
        return ucp_tag_recv_nbx(of != nullptr ? of : worker, data, count, tag, mask, &param);
    }

    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
    std::vector<ucs_status_t> errors; ///< what the endpoints' error handlers were told

private:
    void exchange() {
        const auto mine = address(worker);
        for (unsigned i = 0; i < lines_.size(); ++i) {
            if (i != rank_) {
                lines_[i].put_bytes(mine);
            }
        }
        for (unsigned i = 0; i < lines_.size(); ++i) {
            endpoints_[i] = connect(worker, i == rank_ ? mine : lines_[i].get_bytes());
        }
    }

    unsigned rank_;
    std::vector<Line>& lines_;
    JobOptions options_;
    std::vector<ucp_ep_h> endpoints_;
};

/// Runs `body` in several processes; even ranks are on the host, odd ones on the DPU.
inline void run_job(const JobOptions& options, const std::function<void(Party&)>& body) {
    const Lab lab;
    const unsigned n = options.processes;
    std::vector<std::vector<Line>> lines;
    for (unsigned i = 0; i < n; ++i) {
        lines.emplace_back();
        for (unsigned j = 0; j < n; ++j) {
            lines.back().emplace_back(-1);
        }
    }
    for (unsigned i = 0; i < n; ++i) {
        for (unsigned j = i + 1; j < n; ++j) {
            auto [one, other] = Line::make();
            std::destroy_at(&lines[i][j]);
            std::construct_at(&lines[i][j], std::move(one));
            std::destroy_at(&lines[j][i]);
            std::construct_at(&lines[j][i], std::move(other));
        }
    }
    std::vector<std::unique_ptr<Process>> processes;
    for (unsigned rank = 0; rank < n; ++rank) {
        processes.push_back(std::make_unique<Process>([&](Line&) {
            std::optional<Log> log;
            if (options.quiet) {
                log.emplace();
            }
            {
                Party party(rank, lines[rank], options);
                body(party);
            }
            if (log) {
                EXPECT_TRUE(Log::lines().empty()) << "rank " << rank << ": " << log->text();
            }
        }));
    }
    for (unsigned rank = 0; rank < n; ++rank) {
        EXPECT_EQ(processes[rank]->wait(), 0) << "rank " << rank;
    }
    EXPECT_THAT(lab.files(), testing::IsEmpty());
}

/// Memory for messages: from the heap, or allocated by UCP as UCX_ALLOC_PRIO says.
class Buffer {
public:
    Buffer(ucp_context_h context, std::size_t length, bool mapped)
        : context_(context), length_(length) {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                            UCP_MEM_MAP_PARAM_FIELD_FLAGS;
        params.length = length;
        if (mapped) {
            params.flags = UCP_MEM_MAP_ALLOCATE;
        } else {
            heap_.reset(new std::byte[length]);
            params.address = heap_.get();
        }
        check_ok(ucp_mem_map(context, &params, &memory_), "ucp_mem_map");
        ucp_mem_attr_t attr{};
        attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
        check_ok(ucp_mem_query(memory_, &attr), "ucp_mem_query");
        data_ = static_cast<std::byte*>(attr.address);
    }
    ~Buffer() { EXPECT_EQ(ucp_mem_unmap(context_, memory_), UCS_OK); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t length() const { return length_; }
    void fill(std::size_t length, std::uint64_t seed) const {
        const auto bytes = pattern(length, seed);
        std::copy(bytes.begin(), bytes.end(), data_);
    }
    void clear() const { std::memset(data_, 0xee, length_); }
    [[nodiscard]] bool holds(std::size_t length, std::uint64_t seed) const {
        const auto bytes = pattern(length, seed);
        return std::equal(bytes.begin(), bytes.end(), data_);
    }
    [[nodiscard]] std::vector<char> key() const {
        void* packed = nullptr;
        std::size_t length = 0;
        check_ok(ucp_rkey_pack(context_, memory_, &packed, &length), "ucp_rkey_pack");
        std::vector<char> copy(static_cast<char*>(packed), static_cast<char*>(packed) + length);
        ucp_rkey_buffer_release(packed);
        return copy;
    }

private:
    ucp_context_h context_;
    std::size_t length_;
    std::unique_ptr<std::byte[]> heap_;
    ucp_mem_h memory_ = nullptr;
    std::byte* data_ = nullptr;
};

/// With and without error handling, and by where UCP takes the memory of the messages from.
struct MemoryCase {
    bool error_handling;
    const char* memory; ///< "heap", or a value for UCX_ALLOC_PRIO
};
inline std::string name_of_case(const testing::TestParamInfo<MemoryCase>& test) {
    std::string name = test.param.memory;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
    return name + (test.param.error_handling ? "_with_error_handling" : "");
}

class ByMemory : public testing::TestWithParam<MemoryCase> {
public:
    [[nodiscard]] static auto all() {
        return testing::Values(MemoryCase{false, "heap"}, MemoryCase{true, "heap"},
                               MemoryCase{false, "md:comch"}, MemoryCase{true, "md:comch"},
                               MemoryCase{false, "huge,thp,heap"});
    }

protected:
    [[nodiscard]] static bool mapped() { return std::string_view(GetParam().memory) != "heap"; }
    [[nodiscard]] static JobOptions options() {
        JobOptions result;
        result.error_handling = GetParam().error_handling;
        if (mapped()) {
            result.environment = {{"UCX_ALLOC_PRIO", GetParam().memory}};
        }
        return result;
    }
};

} // namespace comch::uct::test
