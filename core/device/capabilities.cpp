#include <comch/capabilities.hpp>

namespace comch {

Capabilities capabilities_of(Side side) noexcept {
    Capabilities caps;
    caps.max_server_name_size = limits::server_name_size;
    caps.max_message_size = limits::message_size;
    caps.max_send_queue_depth = limits::send_queue_depth;
    caps.max_recv_queue_depth = limits::recv_queue_depth;
    caps.max_clients_per_server = limits::clients_per_server;
    caps.max_fast_path_buffer_size = limits::fast_path_buffer_size;
    caps.max_producer_tasks = limits::producer_tasks;
    caps.max_consumer_tasks = limits::consumer_tasks;
    caps.max_producers_per_connection = limits::producers_per_connection;
    caps.max_consumers_per_connection = limits::consumers_per_connection;
    caps.max_immediate_data_size = limits::immediate_data_size;
    caps.server_supported = side == Side::dpu;
    caps.client_supported = side == Side::host;
    caps.producer_supported = true;
    caps.consumer_supported = true;
    return caps;
}

} // namespace comch
