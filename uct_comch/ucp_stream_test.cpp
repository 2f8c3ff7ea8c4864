// Streams and UCP's active messages, of all sizes and both protocols.
#include <random>

#include "test_ucp.hpp"

namespace comch::uct::test {
namespace {

TEST(UcpStream, CarriesEveryByteInOrder) {
    for (const bool error_handling : {false, true}) {
        JobOptions options;
        options.error_handling = error_handling;
        run_job(options, [](Party& party) {
            // One long text, cut differently on the two sides; both ways at once.
            const std::size_t total = 12 * mib + 7;
            const auto out = pattern(total, party.rank());
            std::vector<std::byte> in(total);
            std::mt19937 random(party.rank() + 5);
            std::vector<ucs_status_ptr_t> sends;
            ucp_request_param_t param{};
            for (std::size_t at = 0; at < total;) {
                // None is empty: UCX's receiver asserts that there is something to enqueue.
                const std::size_t piece = std::min<std::size_t>(
                    total - at, 1 + random() % (random() % 8 == 0 ? 2 * mib : 5000));
                sends.push_back(ucp_stream_send_nbx(party.ep(), out.data() + at, piece, &param));
                ASSERT_FALSE(UCS_PTR_IS_ERR(sends.back()));
                at += piece;
            }
            for (std::size_t at = 0; at < total;) {
                const std::size_t most = std::min<std::size_t>(total - at, 1 + random() % 300'000);
                std::size_t length = 0;
                const ucs_status_ptr_t request =
                    ucp_stream_recv_nbx(party.ep(), in.data() + at, most, &length, &param);
                if (UCS_PTR_IS_PTR(request)) {
                    ASSERT_TRUE(party.until([&] {
                        return ucp_stream_recv_request_test(request, &length) != UCS_INPROGRESS;
                    }));
                    ucp_request_free(request);
                } else {
                    ASSERT_EQ(UCS_PTR_STATUS(request), UCS_OK);
                }
                at += length;
            }
            for (const ucs_status_ptr_t request : sends) {
                ASSERT_EQ(party.wait(request), UCS_OK);
            }
            ASSERT_TRUE(in == pattern(total, 1 - party.rank()));
        });
    }
}

/// Takes UCP's active messages: eager data at once, the rest by rendezvous.
struct Receiver {
    struct Message {
        std::vector<std::byte> header;
        std::vector<std::byte> data;
        ucs_status_ptr_t request = nullptr;
    };

    explicit Receiver(Party& party) : worker(party.worker) {
        ucp_am_handler_param_t param{};
        param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                           UCP_AM_HANDLER_PARAM_FIELD_ARG;
        param.id = 3;
        param.cb = take;
        param.arg = this;
        check_ok(ucp_worker_set_am_recv_handler(worker, &param), "am handler");
    }
    static ucs_status_t take(void* arg, const void* header, std::size_t header_length, void* data,
                             std::size_t length, const ucp_am_recv_param_t* info) {
        auto& self = *static_cast<Receiver*>(arg);
        auto message = std::make_unique<Message>();
        const auto* first = static_cast<const std::byte*>(header);
        message->header.assign(first, first + header_length);
        message->data.resize(length);
        if ((info->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
            ucp_request_param_t param{};
            message->request =
                ucp_am_recv_data_nbx(self.worker, data, message->data.data(), length, &param);
            ++self.by_rendezvous;
        } else if (length != 0) {
            std::memcpy(message->data.data(), data, length);
        }
        self.messages.push_back(std::move(message));
        return UCS_OK;
    }

    ucp_worker_h worker;
    std::vector<std::unique_ptr<Message>> messages;
    int by_rendezvous = 0;
};

TEST(UcpActiveMessages, OfAllSizesWithHeaders) {
    for (const bool error_handling : {false, true}) {
        JobOptions options;
        options.error_handling = error_handling;
        run_job(options, [](Party& party) {
            Receiver receiver(party);
            party.barrier();
            const std::size_t sizes[] = {0,     1,     8,      100,     1000,    4096,   16'000,
                                         32768, 40000, 65'536, 300'000, mib + 1, 8 * mib};
            std::vector<std::vector<std::byte>> out;
            std::vector<std::vector<std::byte>> headers;
            std::vector<ucs_status_ptr_t> sends;
            for (std::uint64_t i = 0; i < std::size(sizes); ++i) {
                out.push_back(pattern(sizes[i], 2 * i + party.rank()));
                headers.push_back(pattern(i * 50, i));
            }
            ucp_request_param_t param{};
            for (std::size_t i = 0; i < std::size(sizes); ++i) {
                sends.push_back(ucp_am_send_nbx(party.ep(), 3, headers[i].data(), headers[i].size(),
                                                out[i].data(), sizes[i], &param));
            }
            ASSERT_TRUE(party.until([&] { return receiver.messages.size() == std::size(sizes); }));
            for (const auto& message : receiver.messages) {
                ASSERT_EQ(party.wait(message->request), UCS_OK);
            }
            for (const ucs_status_ptr_t request : sends) {
                ASSERT_EQ(party.wait(request), UCS_OK);
            }
            EXPECT_GT(receiver.by_rendezvous, 0);
            // A long one may be overtaken by a short one: each is known by its header's length.
            for (const auto& message : receiver.messages) {
                const std::uint64_t i = message->header.size() / 50;
                ASSERT_LT(i, std::size(sizes));
                ASSERT_TRUE(message->header == headers[i]);
                ASSERT_TRUE(message->data == pattern(sizes[i], 2 * i + 1 - party.rank())) << i;
            }
        });
    }
}

} // namespace
} // namespace comch::uct::test
