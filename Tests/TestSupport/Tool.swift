package import Foundation
package import SanguineTesting

/// The real `sanguine`, or another executable of the package, in its own process.
///
/// Separate threads read its streams to the end, so that it never waits for the test.
package final class Tool: Sendable {
    /// The output of one stream so far.
    package struct Said: Sendable {
        package var data = Data()
        package var hasEnded = false

        package var text: String { String(decoding: data, as: UTF8.self) }
        /// The complete lines.
        package var lines: [Substring] {
            text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        }
    }

    /// A process that has ended.
    package struct Ended: Sendable {
        /// The exit status, or the negative number of the signal that ended the process.
        package let status: Int32
        package let output: String
        package let errors: String

        package func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            do {
                return try JSONDecoder().decode(type, from: Data(output.utf8))
            } catch {
                throw Failure("The output is not a \(type): \(output) \(errors)")
            }
        }
    }

    /// A description of an unexpected result of a process.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        init(_ description: String) { self.description = description }
    }

    package let process: Int32
    package let output = WatchedState(Said())
    package let errors = WatchedState(Said())
    private let status = WatchedState<Int32?>(nil)
    private let input: Pipe?
    /// Kept open, so that a write to it blocks instead of failing.
    private let unread: Pipe?

    /// The handling of the command's standard error.
    package enum Errors: Sendable {
        case read
        /// A full pipe without a reader.
        case stalled
    }

    /// Starts the command without the environment's settings for another `sanguine`.
    private init(
        _ executable: String,
        _ arguments: [String],
        environment: [String: String],
        input: String?,
        errors reading: Errors,
        shell: String?
    ) throws {
        let process = Process()
        if let shell {
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", shell, "sh", Self.executable(executable).path] + arguments
        } else {
            process.executableURL = Self.executable(executable)
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
            status.withLock { $0 = number }
        }
        try process.run()
        self.process = process.processIdentifier
        Self.read(out, into: output)
        switch reading {
        case .read:
            Self.read(err, into: errors)
            unread = nil
        case .stalled:
            errors.withLock { $0.hasEnded = true }
            unread = err
        }
    }

    /// Runs the command while the body runs, then kills it if it is still running.
    ///
    /// It reads `input`, which must fit into a pipe, and then waits for more: the input never ends.
    /// A `shell` prepares the process and then becomes it through `exec "$@"`.
    package static func with<Value: Sendable>(
        _ arguments: [String],
        of executable: String = "sanguine",
        environment: [String: String] = [:],
        input: String? = nil,
        errors: Errors = .read,
        shell: String? = nil,
        _ body: @Sendable (Tool) async throws -> Value
    ) async throws -> Value {
        let tool = try Tool(
            executable,
            arguments,
            environment: environment,
            input: input,
            errors: errors,
            shell: shell
        )
        defer { tool.signal(SIGKILL) }
        return try await body(tool)
    }

    /// Runs the command to the end.
    package static func run(
        _ arguments: String...,
        of executable: String = "sanguine",
        environment: [String: String] = [:]
    ) async throws -> Ended {
        try await with(arguments, of: executable, environment: environment) {
            try await $0.ended()
        }
    }

    /// Starts reading the stalled stream.
    package func readErrors() {
        guard let unread else { return }
        errors.withLock { $0.hasEnded = false }
        Self.read(unread, into: errors)
    }

    /// Sends the signal unless the process is known to have ended.
    package func signal(_ number: Int32) {
        guard status.value == nil else { return }
        kill(process, number)
    }

    /// Waits for the end and the complete output.
    package func ended() async throws -> Ended {
        let bound = TestingLimits.longestWait
        let number = try await status.first("the end of the process", within: bound) { $0 }
        try await output.wait(for: "the end of its output", within: bound) { $0.hasEnded }
        try await errors.wait(for: "the end of its errors", within: bound) { $0.hasEnded }
        return Ended(status: number, output: output.value.text, errors: errors.value.text)
    }

    /// Waits for the line with a server's address, and returns the port.
    package func listeningPort() async throws -> Int {
        let prefix = "listening on http://127.0.0.1:"
        let bound = TestingLimits.longestWait
        return try await output.first("the port", within: bound) { [errors] said in
            if let line = said.lines.first(where: { $0.hasPrefix(prefix) }) {
                return Int(line.dropFirst(prefix.count))
            }
            if said.hasEnded { throw Failure("The server never listened: \(errors.value.text)") }
            return nil
        }
    }

    package static func executable(_ name: String = "sanguine") -> URL {
        // Next to the test bundle, wherever that was built.
        let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
        let tests = bundle ?? Bundle.main.executableURL ?? URL(filePath: CommandLine.arguments[0])
        return tests.deletingLastPathComponent().appending(path: name)
    }

    /// Writes as much as the pipe accepts.
    private static func fill(_ pipe: Pipe) throws {
        let descriptor = pipe.fileHandleForWriting.fileDescriptor
        let flags = fcntl(descriptor, F_GETFL)
        guard fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
            throw Failure("The pipe cannot be made non-blocking: \(errno)")
        }
        let bytes = [UInt8](repeating: 0x0a, count: 4_096)
        // A half-full page still accepts single bytes.
        for count in [bytes.count, 1] {
            var written = count
            while written > 0 { written = write(descriptor, bytes, count) }
        }
        _ = fcntl(descriptor, F_SETFL, flags)
    }

    static func read(_ pipe: Pipe, into said: WatchedState<Said>) {
        let handle = pipe.fileHandleForReading
        Thread.detachNewThread {
            while true {
                let data = handle.availableData
                if data.isEmpty { break }
                said.withLock { $0.data += data }
            }
            said.withLock { $0.hasEnded = true }
        }
    }
}
