import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// The memory that this process has allocated and not freed, as reported by the allocator.
///
/// The resident set cannot show small differences, because the allocator keeps pages and the system
/// counts others.
enum AllocatedMemory {
    static func megabytes() throws -> Double {
        #if canImport(Darwin)
        var statistics = malloc_statistics_t()
        malloc_zone_statistics(nil, &statistics)
        return Double(statistics.size_in_use) / 1_048_576
        #else
        // `mallinfo2` is in a header that the platform's module leaves out.
        typealias Info = @convention(c) (Int32, OpaquePointer) -> Int32
        var (text, size): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
        guard let symbol = dlsym(nil, "malloc_info"), let stream = open_memstream(&text, &size)
        else { throw BenchmarkError.wrong("the allocator, which counts nothing") }
        // The symbol's address is cast to the function that the header declares.
        _ = unsafeBitCast(symbol, to: Info.self)(0, OpaquePointer(stream))
        fclose(stream)
        defer { free(text) }
        guard let text else { throw BenchmarkError.wrong("the allocator's report") }
        return try inUse(String(cString: text)) / 1_048_576
        #endif
    }

    /// Returns the memory in use according to glibc: all memory from the system less the free
    /// memory.
    private static func inUse(_ report: String) throws -> Double {
        // The sums of all arenas follow the last of these elements.
        guard let sums = report.components(separatedBy: "</heap>").last,
            let system = size("<system type=\"current\"", sums),
            let fast = size("<total type=\"fast\"", sums),
            let rest = size("<total type=\"rest\"", sums),
            let mapped = size("<total type=\"mmap\"", sums)
        else { throw BenchmarkError.wrong("the allocator's report") }
        return system - fast - rest + mapped
    }

    /// Returns the `size` of the element with the given beginning.
    private static func size(_ element: String, _ report: String) -> Double? {
        let line = report.split(separator: "\n").first { $0.contains(element) }
        return line?.components(separatedBy: "size=\"").dropFirst().first
            .flatMap { Double($0.prefix { $0.isNumber }) }
    }
}
