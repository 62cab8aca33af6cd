import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import SanguineTesting

/// The real `sanguine`, as a process of its own.
///
/// Its streams are read to the end by threads of their own, so that it never waits for the test.
final class Tool: Sendable {
    /// What one stream has said so far.
    struct Said: Sendable {
        var data = Data()
        var hasEnded = false

        var text: String { String(decoding: data, as: UTF8.self) }
        /// The lines that are whole.
        var lines: [Substring] {
            text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        }
    }

    /// A process that has ended.
    struct Ended: Sendable {
        /// The exit status, or minus the signal that ended it.
        let status: Int32
        let output: String
        let errors: String

        func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            do {
                return try JSONDecoder().decode(type, from: Data(output.utf8))
            } catch {
                throw Unexpected("No \(type) but: \(output) \(errors)")
            }
        }
    }

    let process: Int32
    let output = Watched(Said())
    let errors = Watched(Said())
    private let status = Watched<Int32?>(nil)
    private let input: Pipe?
    /// Kept open, so that a write to it waits and does not fail.
    private let unread: Pipe?

    /// What becomes of what the command writes to standard error.
    enum Errors: Sendable {
        case read
        /// It is a pipe that is full, and that nobody reads.
        case stalled
    }

    /// Starts the command, without what the environment sets for another `sanguine`.
    private init(
        _ arguments: [String],
        environment: [String: String],
        input: String?,
        errors reading: Errors,
        shell: String?
    ) throws {
        let process = Process()
        if let shell {
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", shell, "sh", Self.executable.path] + arguments
        } else {
            process.executableURL = Self.executable
            process.arguments = arguments
        }
        process.environment = ProcessInfo.processInfo.environment
            .filter { !$0.key.hasPrefix("SANGUINE_") }
            .merging(environment) { _, new in new }
        let (out, err) = (Pipe(), Pipe())
        process.standardOutput = out
        process.standardError = err
        if case .stalled = reading { try Self.fill(err) }
        self.input = input == nil ? nil : Pipe()
        if let input, let pipe = self.input {
            try pipe.fileHandleForWriting.write(contentsOf: Data(input.utf8))
            process.standardInput = pipe
        } else {
            process.standardInput = FileHandle.nullDevice
        }
        process.terminationHandler = { [status] process in
            let isExit = process.terminationReason == .exit
            let number = isExit ? process.terminationStatus : -process.terminationStatus
            status.update { $0 = number }
        }
        try process.run()
        self.process = process.processIdentifier
        Self.read(out, into: output)
        switch reading {
        case .read:
            Self.read(err, into: errors)
            unread = nil
        case .stalled:
            errors.update { $0.hasEnded = true }
            unread = err
        }
    }

    /// Runs the command for as long as the body takes; then it is killed, if it still runs.
    ///
    /// It reads `input`, which must fit into a pipe, and then waits for more: no end comes. A
    /// `shell` prepares the process and then becomes it, by `exec "$@"`.
    static func with<Value: Sendable>(
        _ arguments: [String],
        environment: [String: String] = [:],
        input: String? = nil,
        errors: Errors = .read,
        shell: String? = nil,
        _ body: @Sendable (Tool) async throws -> Value
    ) async throws -> Value {
        let tool = try Tool(
            arguments,
            environment: environment,
            input: input,
            errors: errors,
            shell: shell
        )
        defer { tool.signal(SIGKILL) }
        return try await body(tool)
    }

    /// Runs the command to its end.
    static func run(
        _ arguments: String...,
        environment: [String: String] = [:]
    ) async throws -> Ended {
        try await with(arguments, environment: environment) { try await $0.ended() }
    }

    /// Begins to read what was stalled.
    func readErrors() {
        guard let unread else { return }
        errors.update { $0.hasEnded = false }
        Self.read(unread, into: errors)
    }

    /// Sends the signal, unless the process is known to have ended.
    func signal(_ number: Int32) {
        guard status.value == nil else { return }
        kill(process, number)
    }

    /// Waits for the end, and for all that was said.
    func ended() async throws -> Ended {
        let number = try await status.first { $0 }
        try await output.when { $0.hasEnded }
        try await errors.when { $0.hasEnded }
        return Ended(status: number, output: output.value.text, errors: errors.value.text)
    }

    /// Waits for the line that says where a server listens, and returns its port.
    func listeningPort() async throws -> Int {
        let prefix = "listening on http://127.0.0.1:"
        return try await output.first { [errors] said in
            if let line = said.lines.first(where: { $0.hasPrefix(prefix) }) {
                return Int(line.dropFirst(prefix.count))
            }
            if said.hasEnded { throw Unexpected("It never listened: \(errors.value.text)") }
            return nil
        }
    }

    static var executable: URL {
        // Beside the bundle of the tests, wherever that was built.
        let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
        let tests = bundle ?? Bundle.main.executableURL ?? URL(filePath: CommandLine.arguments[0])
        return tests.deletingLastPathComponent().appending(path: "sanguine")
    }

    /// Writes as much as the pipe takes.
    private static func fill(_ pipe: Pipe) throws {
        let descriptor = pipe.fileHandleForWriting.fileDescriptor
        let flags = fcntl(descriptor, F_GETFL)
        guard fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
            throw Unexpected("The pipe cannot be made non-blocking: \(errno)")
        }
        let bytes = [UInt8](repeating: 0x0a, count: 4_096)
        // A page that is half full still takes single bytes.
        for count in [bytes.count, 1] {
            var written = count
            while written > 0 { written = write(descriptor, bytes, count) }
        }
        _ = fcntl(descriptor, F_SETFL, flags)
    }

    private static func read(_ pipe: Pipe, into said: Watched<Said>) {
        let handle = pipe.fileHandleForReading
        Thread.detachNewThread {
            while true {
                let data = handle.availableData
                if data.isEmpty { break }
                said.update { $0.data += data }
            }
            said.update { $0.hasEnded = true }
        }
    }
}

/// A running `sanguine serve`.
struct ServeProcess: Sendable {
    let tool: Tool
    let port: Int
    let adminPort: Int
    var api: API { API(port: port) }
    var admin: API { API(port: adminPort) }

    static func with<Value: Sendable>(
        data: URL,
        port: Int = 0,
        arguments: [String] = [],
        environment: [String: String] = ["SANGUINE_LOG_ACCESS": "false"],
        errors: Tool.Errors = .read,
        shell: String? = nil,
        _ body: @Sendable (ServeProcess) async throws -> Value
    ) async throws -> Value {
        let adminPort = try await Self.freePort()
        let all = [
            "serve", "--data", data.path, "--port", "\(port)", "--admin-port", "\(adminPort)",
        ]
        return try await Tool.with(
            all + arguments,
            environment: environment,
            errors: errors,
            shell: shell
        ) {
            let port = try await $0.listeningPort()
            return try await body(ServeProcess(tool: $0, port: port, adminPort: adminPort))
        }
    }

    /// A port that was free a moment ago: nobody says which one the admin port is.
    private static func freePort() async throws -> Int {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = server.localAddress?.port ?? 0
        try await server.close()
        return port
    }

    /// What the admin port says of the metric, or `nil` if it is not there.
    func metric(_ name: String) async throws -> Double? {
        let text = try await admin.send(.GET, "/metrics").text
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line?.split(separator: " ").last.flatMap { Double($0) }
    }

    /// Asks it to stop, and returns how it ended.
    func stop() async throws -> Tool.Ended {
        tool.signal(SIGTERM)
        return try await tool.ended()
    }
}
