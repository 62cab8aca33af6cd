import Foundation

#if canImport(Glibc)
import Glibc
#endif

/// The processor time of another process, with all its threads and the kernel's work for it.
///
/// The system counts it in steps of ten milliseconds.
enum ProcessorTime {
    static func microseconds(of process: Int32) throws -> Double {
        #if os(Linux)
        let text = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        // The name in parentheses may contain spaces. The state and fifty numbers follow
        // (proc_pid_stat(5)), of which the twelfth and thirteenth are user and system ticks.
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12])
        else { throw BenchmarkError.noServer("its processor time cannot be read") }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK))) * 1_000_000
        #else
        let ps = Process()
        ps.executableURL = URL(filePath: "/bin/ps")
        ps.arguments = ["-o", "time=", "-p", "\(process)"]
        let output = Pipe()
        ps.standardOutput = output
        try ps.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        let parts = String(decoding: data, as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines).split(separator: ":")
        let numbers = parts.compactMap { Double($0) }
        guard !numbers.isEmpty, numbers.count == parts.count else {
            throw BenchmarkError.noServer("its processor time cannot be read")
        }
        return numbers.reduce(0) { $0 * 60 + $1 } * 1_000_000
        #endif
    }
}
