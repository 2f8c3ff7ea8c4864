// DMA as it was in 2023: copies that are jobs of work queues.
#pragma once

#include <memory>

#include "doca_comch/workq/job_context.hpp"

namespace comch::doca {

[[nodiscard]] std::unique_ptr<JobContext> make_dma_job_context();

} // namespace comch::doca
