import Foundation

/// Metrics of this process from the kernel, read from `/proc` at each scrape.
///
/// On systems other than Linux there is no `/proc`, and nothing is exposed. Names and units are
/// those of all Prometheus clients.
struct ProcessMetrics: Sendable {
    /// The names of the families, which no other metric may use.
    static let families = [
        "process_cpu_seconds", "process_open_fds", "process_resident_memory_bytes",
        "process_start_time_seconds",
    ]

    /// The machine's constants to convert the kernel's numbers into units.
    struct Scale: Sendable {
        /// Clock ticks per second, for times in `/proc/self/stat`.
        var ticksPerSecond: Double
        /// Bytes per memory page.
        var bytesPerPage: Double
        /// The machine's start time in seconds since 1970.
        var bootTime: Double
    }

    /// The values of one scrape.
    struct Reading: Equatable, Sendable {
        /// Processor time that the process has used in user and system mode, in seconds.
        var cpuSeconds: Double
        /// Bytes of resident memory.
        var residentBytes: Double
        /// The process's start time in seconds since 1970.
        var startTime: Double
    }

    private let scale: Scale?

    init() {
        #if os(Linux)
        let lines = Self.text(of: "/proc/stat")?.split(separator: "\n") ?? []
        let boot = lines.first { $0.hasPrefix("btime ") }.flatMap { Double($0.dropFirst(6)) }
        scale = boot.map {
            Scale(
                ticksPerSecond: Double(sysconf(Int32(_SC_CLK_TCK))),
                bytesPerPage: Double(sysconf(Int32(_SC_PAGESIZE))),
                bootTime: $0
            )
        }
        #else
        scale = nil
        #endif
    }

    /// Appends the families, or nothing if there is no `/proc`.
    func append(to text: inout String) {
        guard let scale, let stat = Self.text(of: "/proc/self/stat"),
            let reading = Self.reading(ofStat: stat, scale: scale)
        else { return }
        func append(_ name: String, _ kind: OpenMetricsRegistry.Kind, _ unit: String, _ n: Double) {
            OpenMetricsRegistry.appendHead(name, kind: kind, unit: unit, to: &text)
            let sample = kind == .counter ? name + "_total" : name
            let number = OpenMetricsText.number(n)
            OpenMetricsText.appendSample(sample, labels: "", value: number, to: &text)
        }
        append("process_cpu_seconds", .counter, "seconds", reading.cpuSeconds)
        let descriptors = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        if let descriptors {
            append("process_open_fds", .gauge, "", Double(descriptors.count))
        }
        append("process_resident_memory_bytes", .gauge, "bytes", reading.residentBytes)
        append("process_start_time_seconds", .gauge, "seconds", reading.startTime)
    }

    /// Parses a line of `/proc/<pid>/stat` (proc(5)), or returns `nil` if it is invalid.
    ///
    /// The second field is the program's name in parentheses, which may contain spaces and
    /// parentheses. Fields are therefore counted from the last closing parenthesis.
    static func reading(ofStat stat: String, scale: Scale) -> Reading? {
        guard let end = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        // Field 3 of the manual page is the first one here.
        func field(_ number: Int) -> Double? {
            fields.indices.contains(number - 3) ? Double(fields[number - 3]) : nil
        }
        guard let user = field(14), let system = field(15), let start = field(22),
            let pages = field(24)
        else { return nil }
        return Reading(
            cpuSeconds: (user + system) / scale.ticksPerSecond,
            residentBytes: pages * scale.bytesPerPage,
            startTime: scale.bootTime + start / scale.ticksPerSecond
        )
    }

    private static func text(of path: String) -> String? {
        // Files in `/proc` report a size of 0, so they must be read to their end.
        guard let file = FileHandle(forReadingAtPath: path),
            let data = try? file.readToEnd()
        else { return nil }
        return String(decoding: data, as: UTF8.self)
    }
}
