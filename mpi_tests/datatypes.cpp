// Derived datatypes: vectors, indices, structures, subarrays, resized and nested ones; sent as one
// type and received as another; packed by hand; in collectives.
#include "common.hpp"

#include <functional>

using namespace mpi_tests;

namespace {

/// A committed datatype, and independently of MPI the places of its bytes in memory, in order.
struct Layout {
    std::string name;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Datatype basic = MPI_DATATYPE_NULL; ///< what it is made of, if that is one type
    std::vector<std::size_t> places;        ///< for one element, byte by byte
    std::size_t extent = 0;                 ///< distance of two elements

    [[nodiscard]] std::size_t size() const { return places.size(); }
    /// Where byte `i` of `count` elements lies.
    [[nodiscard]] std::size_t place(std::size_t i) const {
        return i / places.size() * extent + places[i % places.size()];
    }
    /// Memory that `count` elements need.
    [[nodiscard]] std::size_t span(int count) const {
        std::size_t highest = 0;
        for (const std::size_t place : places) {
            highest = std::max(highest, place + 1);
        }
        return count == 0 ? 0 : std::size_t(count - 1) * extent + highest;
    }
};

/// `count` elements of a layout in memory, with the gaps watched.
class Elements {
public:
    Elements(const Layout& layout, int count)
        : layout_(layout), count_(count), memory_(layout.span(count)),
          bytes_(std::size_t(count) * layout.size()) {
        memory_.arm(memory_.capacity());
        std::memset(memory_.data(), gap, memory_.capacity());
    }

    [[nodiscard]] void* data() { return memory_.data(); }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

    void fill(Key key) {
        std::vector<std::byte> packed(bytes_);
        Pattern(key).fill(packed);
        for (std::size_t i = 0; i < bytes_; ++i) {
            memory_.data()[layout_.place(i)] = packed[i];
        }
    }

    void verify(const std::string& what, Key key) {
        std::vector<std::byte> packed(bytes_);
        std::vector<bool> used(memory_.capacity(), false);
        for (std::size_t i = 0; i < bytes_; ++i) {
            packed[i] = memory_.data()[layout_.place(i)];
            used[layout_.place(i)] = true;
        }
        mpi_tests::verify(what, key, packed);
        for (std::size_t i = 0; i < used.size(); ++i) {
            require(used[i] || memory_.data()[i] == std::byte{gap},
                    "{}: {} elements of {}: the gap byte {} was overwritten with {:#04x}", what,
                    count_, layout_.name, i, static_cast<unsigned>(memory_.data()[i]));
        }
    }

private:
    static constexpr unsigned char gap = 0x3c;

    const Layout& layout_;
    int count_;
    Buffer memory_;
    std::size_t bytes_;
};

/// Appends the bytes [from, from + length).
void append(std::vector<std::size_t>& places, std::size_t from, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) {
        places.push_back(from + i);
    }
}

Layout committed(std::string name, MPI_Datatype type, MPI_Datatype basic,
                 std::vector<std::size_t> places, std::size_t extent) {
    MPI_Type_commit(&type);
    MPI_Aint lower = 0;
    MPI_Aint mpi_extent = 0;
    MPI_Type_get_extent(type, &lower, &mpi_extent);
    int size = 0;
    MPI_Type_size(type, &size);
    require(lower == 0 && std::size_t(mpi_extent) == extent && std::size_t(size) == places.size(),
            "{}: MPI says lower bound {}, extent {}, size {}; expected 0, {}, {}", name, lower,
            mpi_extent, size, extent, places.size());
    return {std::move(name), type, basic, std::move(places), extent};
}

Layout contiguous() {
    MPI_Datatype type;
    MPI_Type_contiguous(24, MPI_BYTE, &type);
    std::vector<std::size_t> places;
    append(places, 0, 24);
    return committed("contiguous", type, MPI_BYTE, places, 24);
}

Layout vector() {
    MPI_Datatype type;
    MPI_Type_vector(5, 3, 7, MPI_INT32_T, &type);
    std::vector<std::size_t> places;
    for (std::size_t block = 0; block < 5; ++block) {
        append(places, block * 28, 12);
    }
    return committed("vector", type, MPI_INT32_T, places, 4 * 28 + 12);
}

Layout hvector() {
    MPI_Datatype type;
    MPI_Type_create_hvector(9, 2, 13, MPI_INT16_T, &type);
    std::vector<std::size_t> places;
    for (std::size_t block = 0; block < 9; ++block) {
        append(places, block * 13, 4);
    }
    return committed("hvector", type, MPI_INT16_T, places, 8 * 13 + 4 + 0);
}

Layout indexed() {
    // Not in the order of memory, and one block is empty.
    const int lengths[] = {2, 0, 3, 1};
    const int starts[] = {7, 3, 0, 12};
    MPI_Datatype type;
    MPI_Type_indexed(4, lengths, starts, MPI_INT64_T, &type);
    std::vector<std::size_t> places;
    append(places, 56, 16);
    append(places, 0, 24);
    append(places, 96, 8);
    return committed("indexed", type, MPI_INT64_T, places, 104);
}

Layout hindexed() {
    const int lengths[] = {3, 5, 1};
    const MPI_Aint starts[] = {0, 11, 31};
    MPI_Datatype type;
    MPI_Type_create_hindexed(3, lengths, starts, MPI_BYTE, &type);
    std::vector<std::size_t> places;
    append(places, 0, 3);
    append(places, 11, 5);
    append(places, 31, 1);
    return committed("hindexed", type, MPI_BYTE, places, 32);
}

Layout indexed_block() {
    const int starts[] = {9, 0, 4};
    MPI_Datatype type;
    MPI_Type_create_indexed_block(3, 2, starts, MPI_INT32_T, &type);
    std::vector<std::size_t> places;
    append(places, 36, 8);
    append(places, 0, 8);
    append(places, 16, 8);
    return committed("indexed_block", type, MPI_INT32_T, places, 44);
}

/// What a C++ program sends most: a structure with padding.
Layout structure() {
    struct Record {
        char letter;
        double value;
        std::int16_t numbers[3];
        std::int64_t last;
    };
    const int lengths[] = {1, 1, 3, 1};
    const MPI_Aint starts[] = {offsetof(Record, letter), offsetof(Record, value),
                               offsetof(Record, numbers), offsetof(Record, last)};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT16_T, MPI_INT64_T};
    MPI_Datatype type;
    MPI_Type_create_struct(4, lengths, starts, types, &type);
    std::vector<std::size_t> places;
    append(places, offsetof(Record, letter), 1);
    append(places, offsetof(Record, value), 8);
    append(places, offsetof(Record, numbers), 6);
    append(places, offsetof(Record, last), 8);
    return committed("struct", type, MPI_DATATYPE_NULL, places, sizeof(Record));
}

Layout subarray() {
    const int sizes[] = {6, 5, 8};
    const int parts[] = {3, 2, 4};
    const int starts[] = {2, 1, 3};
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_FLOAT, &type);
    std::vector<std::size_t> places;
    for (std::size_t i = 2; i < 5; ++i) {
        for (std::size_t j = 1; j < 3; ++j) {
            append(places, ((i * 5 + j) * 8 + 3) * 4, 16);
        }
    }
    return committed("subarray", type, MPI_FLOAT, places, 6 * 5 * 8 * 4);
}

/// A column of a matrix, resized so that several elements are neighbouring columns. There are more
/// columns than any test sends: else elements would overlap.
Layout resized() {
    constexpr int columns = 10000;
    MPI_Datatype column;
    MPI_Type_vector(10, 1, columns, MPI_DOUBLE, &column);
    MPI_Datatype type;
    MPI_Type_create_resized(column, 0, 8, &type);
    MPI_Type_free(&column);
    std::vector<std::size_t> places;
    for (std::size_t row = 0; row < 10; ++row) {
        append(places, row * columns * 8, 8);
    }
    return committed("resized", type, MPI_DOUBLE, places, 8);
}

/// A vector of structures of vectors.
Layout nested() {
    MPI_Datatype inner;
    MPI_Type_vector(3, 1, 2, MPI_INT32_T, &inner); // bytes 0-3, 8-11, 16-19; extent 20
    const int lengths[] = {1, 2};
    const MPI_Aint starts[] = {0, 24};
    const MPI_Datatype types[] = {inner, MPI_BYTE};
    MPI_Datatype middle;
    MPI_Type_create_struct(2, lengths, starts, types, &middle);
    MPI_Datatype padded;
    MPI_Type_create_resized(middle, 0, 32, &padded);
    MPI_Datatype type;
    MPI_Type_vector(4, 2, 3, padded, &type);
    MPI_Type_free(&inner);
    MPI_Type_free(&middle);
    MPI_Type_free(&padded);
    std::vector<std::size_t> places;
    for (std::size_t block = 0; block < 4; ++block) {
        for (std::size_t element = 0; element < 2; ++element) {
            const std::size_t base = (block * 3 + element) * 32;
            for (const std::size_t start : {0, 8, 16}) {
                append(places, base + start, 4);
            }
            append(places, base + 24, 2);
        }
    }
    return committed("nested", type, MPI_DATATYPE_NULL, places, (3 * 3 + 2) * 32);
}

/// All of them; freed at the end.
class Layouts {
public:
    Layouts()
        : all_{contiguous(),    vector(),    hvector(),  indexed(), hindexed(),
               indexed_block(), structure(), subarray(), resized(), nested()} {}
    ~Layouts() {
        for (auto& layout : all_) {
            MPI_Type_free(&layout.type);
        }
    }
    Layouts(const Layouts&) = delete;
    Layouts& operator=(const Layouts&) = delete;

    [[nodiscard]] auto begin() const { return all_.begin(); }
    [[nodiscard]] auto end() const { return all_.end(); }

private:
    std::vector<Layout> all_;
};

/// Elements so that a message is about this long; 0 is one too.
std::vector<int> counts_for(const Layout& layout, int ranks) {
    std::vector<int> counts = {0, 1, 2};
    for (const std::size_t bytes : {100, 5000, 20000, 150000, 700000}) {
        if (bytes <= 150000 || ranks <= 8) {
            counts.push_back(int(bytes / layout.size() + 1));
        }
    }
    return counts;
}

enum class As { same, basic_at_sender, basic_at_receiver };

/// Around the ring, with the type at both ends, or at one end and its basic type at the other.
void exchange(Session& s, const Layout& layout, As as) {
    if (as != As::same && layout.basic == MPI_DATATYPE_NULL) {
        return; // MPI wants both ends to name the same basic types
    }
    int basic_size = 1;
    if (as != As::same) {
        MPI_Type_size(layout.basic, &basic_size);
    }
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    int tag = 0;
    for (const int count : counts_for(layout, s.size())) {
        ++tag;
        const std::size_t bytes = std::size_t(count) * layout.size();
        const int basic_count = int(bytes) / basic_size;
        Elements out(layout, count);
        Elements in(layout, count);
        Buffer plain_out(bytes);
        Buffer plain_in(bytes);
        const Key key{s.rank(), to, tag};
        out.fill(key);
        plain_out.fill(key, bytes);
        plain_in.arm(bytes);
        const bool typed_out = as != As::basic_at_sender;
        const bool typed_in = as != As::basic_at_receiver;
        MPI_Status status;
        MPI_Sendrecv(typed_out ? out.data() : plain_out.data(), typed_out ? count : basic_count,
                     typed_out ? layout.type : layout.basic, to, tag,
                     typed_in ? in.data() : plain_in.data(), typed_in ? count : basic_count,
                     typed_in ? layout.type : layout.basic, from, tag, MPI_COMM_WORLD, &status);
        s.moved(bytes);
        int got = -1;
        MPI_Get_count(&status, typed_in ? layout.type : layout.basic, &got);
        require(got == (typed_in ? count : basic_count), "{}: MPI_Get_count says {}, expected {}",
                layout.name, got, typed_in ? count : basic_count);
        const Key expected{from, s.rank(), tag};
        if (typed_in) {
            in.verify("exchange of " + layout.name, expected);
        } else {
            plain_in.verify("exchange of " + layout.name + " as plain data", expected, bytes);
        }
        out.verify("sender's own " + layout.name, key); // only read
    }
}

/// Many in flight, of all layouts, received in another order.
void window(Session& s, const Layouts& layouts) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::vector<std::unique_ptr<Elements>> out;
    std::vector<std::unique_ptr<Elements>> in;
    std::vector<const Layout*> which;
    std::vector<int> counts;
    for (const auto& layout : layouts) {
        for (const int count : counts_for(layout, s.size())) {
            out.push_back(std::make_unique<Elements>(layout, count));
            in.push_back(std::make_unique<Elements>(layout, count));
            which.push_back(&layout);
            counts.push_back(count);
        }
    }
    std::vector<MPI_Request> requests;
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i]->fill({s.rank(), to, int(i)});
        MPI_Isend(out[i]->data(), counts[i], which[i]->type, to, int(i), MPI_COMM_WORLD,
                  &requests.emplace_back());
        s.moved(out[i]->bytes());
    }
    for (std::size_t i = out.size(); i-- > 0;) {
        MPI_Irecv(in[i]->data(), counts[i], which[i]->type, from, int(i), MPI_COMM_WORLD,
                  &requests.emplace_back());
    }
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t i = 0; i < in.size(); ++i) {
        in[i]->verify("window of " + which[i]->name, {from, s.rank(), int(i)});
    }
}

/// A message shorter than the receive: elements that do not come stay as they are.
void fewer_than_asked_for(Session& s, const Layout& layout) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (const int sent : {1, 50, 3000}) {
        Elements out(layout, sent);
        out.fill({s.rank(), to, sent});
        // The rest of the memory is watched as one gap.
        const int room = sent + 10;
        Buffer memory(layout.span(room));
        std::memset(memory.arm(memory.capacity()), 0x3c, memory.capacity());
        MPI_Status status;
        MPI_Sendrecv(out.data(), sent, layout.type, to, sent, memory.data(), room, layout.type,
                     from, sent, MPI_COMM_WORLD, &status);
        s.moved(out.bytes());
        int got = -1;
        MPI_Get_count(&status, layout.type, &got);
        require(got == sent, "{}: MPI_Get_count says {}, {} were sent", layout.name, got, sent);
        std::vector<std::byte> packed(out.bytes());
        std::vector<bool> used(memory.capacity(), false);
        for (std::size_t i = 0; i < packed.size(); ++i) {
            packed[i] = memory.data()[layout.place(i)];
            used[layout.place(i)] = true;
        }
        verify("fewer elements of " + layout.name, {from, s.rank(), sent}, packed);
        for (std::size_t i = 0; i < used.size(); ++i) {
            require(used[i] || memory.data()[i] == std::byte{0x3c},
                    "{}: {} elements came, byte {} behind or between them was overwritten",
                    layout.name, sent, i);
        }
    }
}

void packed(Session& s, const Layout& layout) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    const int count = int(30000 / layout.size() + 1);
    Elements out(layout, count);
    Elements in(layout, count);
    out.fill({s.rank(), to, 1});
    int room = 0;
    MPI_Pack_size(count, layout.type, MPI_COMM_WORLD, &room);
    std::vector<std::byte> buffer(std::size_t(room) + 8);
    std::vector<std::byte> received(std::size_t(room) + 8);
    int position = 0;
    MPI_Pack(&count, 1, MPI_INT, buffer.data(), int(buffer.size()), &position, MPI_COMM_WORLD);
    MPI_Pack(out.data(), count, layout.type, buffer.data(), int(buffer.size()), &position,
             MPI_COMM_WORLD);
    MPI_Sendrecv(buffer.data(), position, MPI_PACKED, to, 1, received.data(), int(received.size()),
                 MPI_PACKED, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    s.moved(out.bytes());
    position = 0;
    int got = 0;
    MPI_Unpack(received.data(), int(received.size()), &position, &got, 1, MPI_INT, MPI_COMM_WORLD);
    require(got == count, "packed {}: the number before it is {}, expected {}", layout.name, got,
            count);
    MPI_Unpack(received.data(), int(received.size()), &position, in.data(), count, layout.type,
               MPI_COMM_WORLD);
    in.verify("packed " + layout.name, {from, s.rank(), 1});
}

/// Typed at the root and at the others; one element per rank and many.
void collectives(Session& s, const Layout& layout) {
    for (const int count : {1, int(10000 / layout.size() + 1)}) {
        const int root = count % s.size();
        const Key key{root, 0, count};
        Elements both(layout, count);
        if (s.rank() == root) {
            both.fill(key);
        } else {
            s.moved_by_collective(both.bytes());
        }
        MPI_Bcast(both.data(), count, layout.type, root, MPI_COMM_WORLD);
        both.verify("bcast of " + layout.name, key);

        if (layout.name == "resized") {
            continue; // its elements overlap: several side by side are not one behind the other
        }
        const std::size_t bytes = std::size_t(count) * layout.size();
        Elements out(layout, count);
        out.fill({s.rank(), 0, count});
        Buffer memory(layout.extent * std::size_t(count) * std::size_t(s.size()));
        std::memset(memory.arm(memory.capacity()), 0x3c, memory.capacity());
        MPI_Allgather(out.data(), count, layout.type, memory.data(), count, layout.type,
                      MPI_COMM_WORLD);
        s.moved_by_collective(bytes * std::size_t(s.size() - 1));
        std::vector<bool> used(memory.capacity(), false);
        for (int rank = 0; rank < s.size(); ++rank) {
            std::vector<std::byte> block(bytes);
            for (std::size_t i = 0; i < bytes; ++i) {
                const std::size_t place = layout.place(std::size_t(rank) * bytes + i);
                block[i] = memory.data()[place];
                used[place] = true;
            }
            verify("allgather of " + layout.name, {rank, 0, count}, block);
        }
        for (std::size_t i = 0; i < used.size(); ++i) {
            require(used[i] || memory.data()[i] == std::byte{0x3c},
                    "allgather of {}: the gap byte {} was overwritten", layout.name, i);
        }
    }
}

/// A matrix is transposed by sending rows and receiving resized columns.
void transpose(Session& s) {
    constexpr int n = 150;
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    MPI_Datatype column;
    MPI_Datatype columns;
    MPI_Type_vector(n, 1, n, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &columns);
    MPI_Type_commit(&columns);
    std::vector<double> out(n * n);
    std::vector<double> in(n * n);
    for (int i = 0; i < n * n; ++i) {
        out[std::size_t(i)] = s.rank() * 1e6 + i;
    }
    MPI_Sendrecv(out.data(), n * n, MPI_DOUBLE, to, 1, in.data(), n, columns, from, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    s.moved(n * n * sizeof(double));
    for (int row = 0; row < n; ++row) {
        for (int col = 0; col < n; ++col) {
            const double expected = from * 1e6 + col * n + row;
            require(in[std::size_t(row * n + col)] == expected,
                    "transposed matrix of rank {}: element ({}, {}) is {}, expected {}", from, row,
                    col, in[std::size_t(row * n + col)], expected);
        }
    }
    MPI_Type_free(&column);
    MPI_Type_free(&columns);
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "datatypes");
    {
        const Layouts layouts;
        for (const auto& layout : layouts) {
            s.group(layout.name, [&] {
                exchange(s, layout, As::same);
                exchange(s, layout, As::basic_at_sender);
                exchange(s, layout, As::basic_at_receiver);
                fewer_than_asked_for(s, layout);
                packed(s, layout);
                collectives(s, layout);
            });
        }
        s.group("all layouts in flight", [&] { window(s, layouts); });
        s.group("transposed matrix", [&] { transpose(s); });
    }
    return s.finish();
}
