import Foundation
import NIOCore
import NIOPosix
import SanguineSQLite
import SanguineServer
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// The server processes of the live connections' benchmark.
enum LiveServers {
    static let serverArgument = "--live-server"
    static let bareArgument = "--live-bare"

    /// A process that has reported the port on which it listens.
    struct Child {
        let process: Process
        let port: Int

        /// Starts the process.
        ///
        /// - Parameters:
        ///   - argument: The argument that selects the server.
        ///   - openFiles: The limit of open files, by default that of this process.
        ///   - errors: The pipe for its log, by default this process's standard error.
        /// - Throws: ``BenchmarkError`` if the process does not report its port.
        init(_ argument: String, openFiles: Int? = nil, errors: Pipe? = nil) throws {
            process = Process()
            if let openFiles {
                process.executableURL = URL(filePath: "/bin/sh")
                let script = "ulimit -n \(openFiles) && exec \"$0\" \"$1\""
                process.arguments = ["-c", script, CommandLine.arguments[0], argument]
            } else {
                process.executableURL = URL(filePath: CommandLine.arguments[0])
                process.arguments = [argument]
            }
            if let errors { process.standardError = errors }
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            let line = output.fileHandleForReading.availableData  // Waits for the first bytes.
            let text = String(decoding: line, as: UTF8.self)
            guard let port = Int(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
                throw BenchmarkError.noServer("it ended before it was ready")
            }
            self.port = port
        }

        func end() {
            process.terminate()
            process.waitUntilExit()
        }
    }

    /// Serves in this process until it is terminated, if its argument says so.
    ///
    /// Returns whether it did.
    static func serveIfAsked() async throws -> Bool {
        switch CommandLine.arguments.dropFirst().first {
        case serverArgument:
            raiseDescriptorLimit()
            try await serve()
            return true
        case bareArgument:
            raiseDescriptorLimit()
            try await serveBare()
            return true
        default:
            return false
        }
    }

    /// Raises this process's limit of open files as far as the system allows.
    static func raiseDescriptorLimit() {
        #if os(Linux)
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let files = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        getrlimit(files, &limit)
        limit.rlim_cur = min(limit.rlim_max, 65_536)
        setrlimit(files, &limit)
    }

    private static func say(_ port: Int) {
        try? FileHandle.standardOutput.write(contentsOf: Data("\(port)\n".utf8))
    }

    private static func serve() async throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-live-\(ProcessInfo.processInfo.processIdentifier)")
        var settings = ServerSettings()
        settings.http.port = 0
        settings.limits.liveConnectionsPerAccount = LiveBenchmarks.connections
        settings.limits.requestsPerMinute = 60_000_000
        settings.limits.addressRequestsPerMinute = 60_000_000
        settings.limits.guestsPerHour = 0
        let server = try await SanguineServer(
            storage: try SQLiteStorage(folder: folder),
            keys: KeyFile.loadOrCreate(in: folder),
            settings: settings,
            logger: BenchmarkedServer.quiet
        ) { ports in
            // Open files stay usable without their names, and nothing remains when the process is
            // terminated.
            try? FileManager.default.removeItem(at: folder)
            say(ports.http)
        }
        try await server.run()
    }

    private static func serveBare() async throws {
        let hall = Hall()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 1_024)
            .childChannelInitializer { $0.pipeline.addHandler(Line(hall: hall)) }
            .bind(host: "127.0.0.1", port: 0).get()
        say(channel.localAddress?.port ?? 0)
        try await channel.closeFuture.get()
    }

    /// The channels by number.
    private final class Hall: Sendable {
        private let channels = Mutex<[Int: any Channel]>([:])

        func enter(_ channel: any Channel, as number: Int) {
            channels.withLock { $0[number] = channel }
        }

        func writeToAll(_ bytes: ByteBuffer) {
            for channel in channels.withLock({ Array($0.values) }) {
                channel.writeAndFlush(bytes, promise: nil)
            }
        }

        func write(_ bytes: ByteBuffer, to number: Int) {
            channels.withLock { $0[number] }?.writeAndFlush(bytes, promise: nil)
        }
    }

    /// `L<n>` assigns a number, `A<text>` writes to all channels, and `O<n> <text>` writes to one.
    ///
    /// Mutable state belongs to the event loop: the text of the current line.
    private final class Line: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer

        private let hall: Hall
        private var text = ""

        init(hall: Hall) { self.hall = hall }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            text += String(buffer: unwrapInboundIn(data))
            while let end = text.firstIndex(of: "\n") {
                let line = text[..<end]
                text = String(text[text.index(after: end)...])
                take(line, context.channel)
            }
        }

        private func take(_ line: Substring, _ channel: any Channel) {
            let rest = line.dropFirst()
            switch line.first {
            case "L": hall.enter(channel, as: Int(rest) ?? 0)
            case "A": hall.writeToAll(ByteBuffer(substring: rest))
            default:
                let parts = rest.split(separator: " ", maxSplits: 1)
                guard parts.count == 2, let number = Int(parts[0]) else { return }
                hall.write(ByteBuffer(substring: parts[1]), to: number)
            }
        }
    }
}
