import Foundation
import NIOCore
import NIOPosix

/// The overhead of LiteLLM's proxy for a call to a language model.
///
/// These are the rows of ``FunctionBenchmarks`` that apply, with the same model, the same load and
/// one process. LiteLLM passes calls through, because metering would require a PostgreSQL server.
enum LiteLLMBenchmarks {
    /// The program that `Scripts/bench-litellm.sh` installs.
    private static let program = ".build-litellm/python/bin/litellm"
    /// The file with its process id while it runs, so that the script can stop it if this process
    /// does not.
    private static let processFile = ".build-litellm/proxy.pid"
    /// The time it has to stop on its own, in tenths of a second.
    private static let ends = 50
    /// The key of its callers.
    private static let key = "sk-bench"
    /// The time it may take to start, in tenths of a second.
    private static let starts = 600

    /// Measures LiteLLM, if it is installed.
    static func run(roundTime: Duration) async throws -> [Figure] {
        guard FileManager.default.isExecutableFile(atPath: program) else {
            print("LiteLLM's proxy is not installed. Run 'make litellm'.")
            return []
        }
        let folder = try Folder()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let upstream = try FunctionServers.upstream()
        defer { upstream.end() }
        let bare = try FunctionServers.bare(before: upstream.port)
        defer { bare.end() }
        let port = try await freePort(group)
        let proxy = try start(port, before: upstream.port, in: folder)
        defer { end(proxy) }
        try await waitUntilReady(port, proxy)
        let measurement = ProxyMeasurement(
            group: group,
            roundTime: roundTime,
            upstream: .init(upstream),
            bare: .init(bare)
        )
        let endpoint = ProxyMeasurement.Endpoint(port: port, process: proxy.processIdentifier)
        let call = way("LiteLLM, passed through", endpoint, isStreamed: false)
        let stream = way("LiteLLM, first event passed through", endpoint, isStreamed: true)
        let figures =
            try await ProxyMeasurement.added([call], measurement.latencies([call]))
            + ProxyMeasurement.added([stream], measurement.firstEvents([stream]))
            + measurement.rates(call, perCore: nil)
        try await group.shutdownGracefully()
        return figures
    }

    private static func way(
        _ name: String,
        _ endpoint: ProxyMeasurement.Endpoint,
        isStreamed: Bool
    ) -> ProxyMeasurement.Way {
        ProxyMeasurement.Way(name: name, endpoint: endpoint) { _, _, _ in
            FunctionRequests.chat(key, isStreamed: isStreamed)
        }
    }

    private static func freePort(_ group: any EventLoopGroup) async throws -> Int {
        let channel = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let port = channel.localAddress?.port ?? 0
        try await channel.close()
        return port
    }

    private static func start(
        _ port: Int,
        before upstream: Int,
        in folder: Folder
    ) throws -> Process {
        let file = folder.url.appending(path: "litellm.yaml")
        let configuration = """
            model_list:
              - model_name: stand-in
                litellm_params:
                  model: openai/stand-in
                  api_base: http://127.0.0.1:\(upstream)/v1
                  api_key: none
            general_settings:
              master_key: \(key)
            """
        try Data(configuration.utf8).write(to: file)
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = [
            "--config", file.path, "--host", "127.0.0.1", "--port", "\(port)",
            "--num_workers", "1", "--telemetry", "False",
        ]
        process.environment = ProcessInfo.processInfo.environment
            .merging(["LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION"]) { $1 }
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        try Data("\(process.processIdentifier)\n".utf8).write(to: URL(filePath: processFile))
        return process
    }

    /// Stops the proxy, or kills it after a while because it waits for its connections.
    private static func end(_ proxy: Process) {
        proxy.terminate()
        for _ in 0..<ends where proxy.isRunning { Thread.sleep(forTimeInterval: 0.1) }
        if proxy.isRunning { kill(proxy.processIdentifier, SIGKILL) }
        proxy.waitUntilExit()
        try? FileManager.default.removeItem(atPath: processFile)
    }

    private static func waitUntilReady(_ port: Int, _ proxy: Process) async throws {
        for _ in 0..<starts {
            guard proxy.isRunning else { break }
            let answer = try? await LiveBenchmarks.post(
                "/v1/chat/completions",
                key,
                Data(#"{"model":"stand-in","messages":[{"role":"user","content":"a"}]}"#.utf8),
                port: port
            )
            if answer?.1 == 200 { return }
            try await ContinuousClock().sleep(for: .milliseconds(100))
        }
        throw BenchmarkError.noServer("LiteLLM's proxy does not answer")
    }
}
