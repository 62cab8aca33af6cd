import Foundation
import SanguineSQLite
import SanguineServer
import ServiceLifecycle

/// The memory of an idle server, compared with a bare Hummingbird server.
///
/// Each is a separate process.
enum MemoryBenchmarks {
    static let serverArgument = "--idle-server"
    static let bareArgument = "--idle-bare"

    static func run() throws -> [Figure] {
        [
            Figure(
                cost: "memory of an idle server",
                try residentMegabytes(of: serverArgument),
                unit: "MB",
                of: "idle bare Hummingbird",
                try residentMegabytes(of: bareArgument),
                atMost: nil
            )
        ]
    }

    /// Serves in this process until it is terminated, if its argument says so.
    ///
    /// Returns whether it did.
    static func serveIfAsked() async throws -> Bool {
        let ready: @Sendable () -> Void = {
            try? FileHandle.standardOutput.write(contentsOf: Data("ready\n".utf8))
        }
        switch CommandLine.arguments.dropFirst().first {
        case serverArgument:
            let folder = FileManager.default.temporaryDirectory
                .appending(path: "sanguine-idle-\(ProcessInfo.processInfo.processIdentifier)")
            var settings = ServerSettings()
            settings.http.port = 0
            let server = try await SanguineServer(
                storage: try SQLiteStorage(folder: folder),
                keys: KeyFile.loadOrCreate(in: folder),
                settings: settings,
                logger: BenchmarkedServer.quiet
            ) { _ in
                // Open files stay usable without their names, and nothing remains when the process
                // is terminated.
                try? FileManager.default.removeItem(at: folder)
                ready()
            }
            try await server.run()
            return true
        case bareArgument:
            try await BenchmarkedServer.bare { _ in ready() }.run()
            return true
        default:
            return false
        }
    }

    private static func residentMegabytes(of argument: String) throws -> Double {
        let process = Process()
        process.executableURL = URL(filePath: CommandLine.arguments[0])
        process.arguments = [argument]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        guard let line = try output.fileHandleForReading.read(upToCount: 6), !line.isEmpty else {
            throw BenchmarkError.noServer("it ended before it was ready")
        }
        return try residentMegabytes(process.processIdentifier)
    }

    static func residentMegabytes(_ process: Int32) throws -> Double {
        #if os(Linux)
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        let kilobytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first
        #else
        let ps = Process()
        ps.executableURL = URL(filePath: "/bin/ps")
        ps.arguments = ["-o", "rss=", "-p", "\(process)"]
        let output = Pipe()
        ps.standardOutput = output
        try ps.run()
        let text = try output.fileHandleForReading.readToEnd().map {
            String(decoding: $0, as: UTF8.self)
        }
        let kilobytes = text?.split(whereSeparator: \.isWhitespace).first
        #endif
        guard let kilobytes, let number = Double(kilobytes) else {
            throw BenchmarkError.noServer("its memory cannot be read")
        }
        return number / 1_024
    }
}
