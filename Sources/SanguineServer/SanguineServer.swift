import Foundation
import Hummingbird
import HummingbirdCore
public import Logging
import Metrics
import NIOCore
public import SanguineAuthority
@_exported public import SanguineModel
public import ServiceLifecycle

/// The authority as a server: HTTP, functions, jobs and metrics on top of a given storage.
///
/// ```swift
/// let server = try await SanguineServer(storage: storage, keys: keys, settings: settings)
/// try await server.serve()  // until SIGTERM or SIGINT
/// ```
///
/// A graceful shutdown ends live connections, closes the ports to new requests, lets current
/// requests finish, waits until function calls are settled, and then returns. The caller closes the
/// storage afterwards.
public struct SanguineServer: Service {
    /// The two ports on which a server listens.
    public struct Ports: Hashable, Sendable {
        /// The public port.
        public var http: Int
        /// The port for metrics and administration.
        public var admin: Int
    }

    private let settings: ServerSettings
    private let functions: [ServerFunction]
    private let adminTokens: [AdminToken]
    let authority: Authority
    private let uploads: UploadTimeouts
    private let live: LiveHub
    private let mail: MailDelivery
    /// The store of files in a bucket; `nil` if they are in the storage.
    let bucket: S3BlobStore?
    private let readiness: Readiness
    private let requests = SharedPool(limit: EdgeLimits.requestsInFlight)
    /// The responses that wait to be read.
    let answers: SharedPool
    private let bodies: SharedPool
    /// The files that are being received.
    let files: SharedPool
    private let registry: OpenMetricsRegistry
    private let log: LogQueue?
    let logger: Logger
    /// Answers the App Store's requests for consumption data; `nil` to log them.
    let consumption: (any ConsumptionReporter)?
    private let clock: any WallClock
    private let delay: any Clock<Duration>
    private var onListening: @Sendable (Ports) async -> Void

    /// Creates a server and recovers from a crash of an earlier server on the same storage.
    ///
    /// - Parameters:
    ///   - storage: The storage of the authority's data. No other process may use it.
    ///   - keys: The secrets that sign tokens. See ``KeyFile``.
    ///   - adminToken: The token that gives access to `/admin`. See ``AdminToken``. Default: no
    ///     access.
    ///   - adminTokens: Further tokens, with fewer rights. See
    ///     ``AdminToken/loadOrCreateAll(in:settings:)``. Default: none.
    ///   - settings: The server's settings.
    ///   - types: The app's records and record mutations, in addition to the collections of the
    ///     settings and the mutations that need no code. Default: none.
    ///   - functions: The app's functions, in addition to those of the settings. Default: none.
    ///   - mail: Sends the e-mails. Default: as the settings say.
    ///   - consumption: Answers the App Store's requests for consumption data. Default: `nil`, the
    ///     log contains the answers.
    ///   - deviceCheck: Asks Apple's DeviceCheck about devices. Default: as the settings say.
    ///   - registry: The registry of metrics, which `/metrics` on the admin port exposes.
    ///   - log: The queue for the access log, which the settings can turn off, or `nil` for no
    ///     access log. Its dropped lines are exposed as a metric.
    ///   - logger: The log of errors and other events.
    ///   - clock: The current time.
    ///   - delay: The clock for timeouts and delays.
    ///   - onListening: Called once, when both ports accept requests.
    /// - Throws: ``SettingsError`` for settings that cannot be served, or the storage's error.
    public init(
        storage: any Storage,
        keys: SigningKeys,
        adminToken: AdminToken? = nil,
        adminTokens: [AdminToken] = [],
        settings: ServerSettings = ServerSettings(),
        registering types: [any Registrable.Type] = [],
        functions: [ServerFunction] = [],
        mail: (any MailSender)? = nil,
        consumption: (any ConsumptionReporter)? = nil,
        deviceCheck: (any DeviceCheckClient)? = nil,
        registry: OpenMetricsRegistry = OpenMetricsRegistry(),
        log: LogQueue? = nil,
        logger: Logger = Logger(label: "sanguine"),
        clock: any WallClock = SystemWallClock(),
        delay: any Clock<Duration> = ContinuousClock(),
        onListening: @escaping @Sendable (Ports) async -> Void = { _ in }
    ) async throws {
        try settings.validate(with: functions)
        let readiness = Readiness(delay: delay)
        self.readiness = readiness
        bucket = try settings.blobs.bucketStore(clock: clock, delay: delay)
        authority = Authority(
            storage: Self.logged(storage, bucket, registry, readiness, logger, delay),
            keys: keys,
            settings: try Self.rules(of: settings, registering: types),
            clock: clock,
            keyServer: HTTPKeyServer(logger: logger),
            deviceCheck: try deviceCheck
                ?? settings.deviceCheck.load(clock: clock, delay: delay, logger: logger),
            images: ServerImages(folder: storage.blobs.thumbnailFolder.map { URL(filePath: $0) }),
            delay: delay
        )
        try await Self.recover(authority, readiness, logger)
        await IndexBuilder(authority: authority, delay: delay, logger: logger).begin()
        (self.settings, self.functions, self.onListening) = (settings, functions, onListening)
        self.adminTokens = (adminToken.map { [$0] } ?? []) + adminTokens
        uploads = UploadTimeouts(turns: settings.limits.requestTimeout.secondsRoundedUp)
        answers = .bytes(settings.limits.answerBytes)
        bodies = .bytes(settings.limits.receivedBytes)
        files = Self.pool(of: settings.limits)
        live = LiveHub(
            feed: AuthorityFeed(authority: authority),
            limits: LiveHub.Limits(settings.limits),
            clock: clock,
            delay: delay,
            metrics: registry
        ) { [authority] in authority.tokens.isValid($0) }
        live.follow(authority)
        self.mail = MailDelivery(
            authority: authority,
            sender: mail ?? settings.mail.sender(clock: delay, wall: clock),
            metrics: registry,
            logger: logger
        )
        (self.registry, self.log, self.logger) = (registry, log, logger)
        registry.expose(storage, authority, log)
        (self.consumption, self.clock, self.delay) = (consumption, clock, delay)
    }

    /// Returns this server, with a closure that also receives its addresses once it listens.
    func reportingAddresses(to report: @escaping @Sendable (Addresses) -> Void) -> SanguineServer {
        var server = self
        server.onListening = { [http = settings.http, onListening] ports in
            await onListening(ports)
            guard let api = URL(string: http.url(port: ports.http)),
                let admin = URL(string: http.adminURL(port: ports.admin))
            else { preconditionFailure("The host of an open port is not valid in a URL.") }
            report(Addresses(http: api, admin: admin))
        }
        return server
    }

    private static func logged(
        _ storage: any Storage,
        _ files: S3BlobStore?,
        _ metrics: OpenMetricsRegistry,
        _ readiness: Readiness,
        _ logger: Logger,
        _ delay: any Clock<Duration>
    ) -> LoggedStorage {
        LoggedStorage(storage, files: files, logger: logger, clock: delay, metrics: metrics) {
            readiness.saw($0)
        }
    }

    private static func pool(of limits: ServerSettings.Limits) -> SharedPool {
        SharedPool(
            limit: EdgeLimits.filesAtOnce * limits.blobBytes,
            accountShare: limits.blobBytes
        )
    }

    private static func rules(
        of settings: ServerSettings,
        registering types: [any Registrable.Type]
    ) throws(SettingsError) -> AuthoritySettings {
        var rules = AuthoritySettings(settings, registering: types)
        rules.appStore = try settings.appStore.load()
        rules.attestation = try settings.attestation.load()
        let faults = rules.schema.faults
        guard faults.isEmpty else { throw SettingsError(faults.map { .unusable(reason: $0) }) }
        return rules
    }

    /// Serves until the surrounding task is cancelled or a graceful shutdown is triggered.
    ///
    /// - Throws: ``PortTaken`` for a port that another program uses, ``TLSFileError`` for a
    ///   certificate that cannot be loaded, ``FFmpegMissing`` if an upstream needs images of videos
    ///   and no program can extract them, ``SettingsError`` for a bucket that cannot be used, or
    ///   the error that made the server fail.
    public func run() async throws {
        for warning in settings.warnings(with: self.functions) { logger.warning("\(warning)") }
        let configurations = try settings.upstreamConfigurations()
        let tls = try settings.http.tlsIdentity()
        let frames = try settings.frameSampler()
        let descriptors = try Descriptors(
            limit: Descriptors.raiseLimit() - (bucket == nil ? 0 : settings.blobs.s3.connections),
            connections: settings.limits.connections,
            upstream: configurations.isEmpty ? 0 : settings.limits.functionCalls
        )
        if descriptors.connections < settings.limits.connections {
            logger.warning(
                "Fewer connections than 'limits.connections' are accepted. Raise 'ulimit -n'",
                metadata: ["connections": "\(descriptors.connections)"]
            )
        }
        let outward = configurations.first.map { _, configuration in
            UpstreamConnections(
                configuration.httpClientConfiguration(connections: descriptors.upstream)
            )
        }
        let named = outward.map { outward in
            configurations.map { name, configuration in
                NamedUpstream(
                    name,
                    UpstreamClient(configuration: configuration, connections: outward, clock: delay)
                )
            }
        }
        let reports = UpstreamReports.metrics(registry, logger)
        let pool = Upstreams(named ?? [], frames: frames, clock: delay, reports: reports)
        let functions = functionRunner(pool)
        // From here on nothing may throw outside this block: the connections must be shut down.
        do {
            try await checkBucket()
            try await serve(functions, tls: tls, connections: descriptors.connections)
            await shutDown(outward, functions.calls)
        } catch {
            await shutDown(outward, functions.calls)
            throw error
        }
    }

    /// Checks that the bucket of files can be used, if there is one.
    ///
    /// A storage that cannot be reached or is overloaded stops no server, because that may change:
    /// everything except files works in the meantime.
    ///
    /// - Throws: ``SettingsError`` if the storage refuses the bucket or the keys.
    private func checkBucket() async throws(SettingsError) {
        guard let bucket else { return }
        do throws(S3Failure) {
            try await bucket.check()
            logger.info("Files are stored in a bucket", metadata: ["bucket": "\(bucket.location)"])
        } catch {
            let reason = error.reason(at: bucket.location)
            switch error {
            case .refused(let refusal) where !refusal.isTemporary:
                throw SettingsError([.unusable(reason: "Files cannot be stored: \(reason).")])
            case .refused, .unreachable, .unreadable, .timeout, .cancelled, .closed:
                logger.error("Files cannot be stored or read", metadata: ["reason": "\(reason)"])
            }
        }
    }

    /// Closes the outgoing connections and waits until the calls that fail are settled.
    ///
    /// The wait is bounded here, because the HTTP client's own shutdown cannot be cancelled.
    private func shutDown(_ outward: UpstreamConnections?, _ calls: CallRunner) async {
        guard outward != nil || bucket != nil else { return }
        let (ended, end) = AsyncStream.makeStream(of: Never.self)
        Task {
            do { try await outward?.shutdown() } catch { logger.debug("\(error)") }
            await bucket?.close()
            await calls.waitForLast()
            end.finish()
        }
        let timer = Task {
            try? await delay.sleep(for: Self.lastCalls)
            calls.abandon()
            end.finish()
        }
        for await _ in ended {}
        timer.cancel()
    }

    /// The time limit for closing outgoing connections and settling the calls that end with them.
    static let lastCalls = Duration.seconds(5)

    private func serve(
        _ functions: FunctionRunner,
        tls: TLSIdentity?,
        connections: Int
    ) async throws {
        let announcement = Announcement(onListening)
        let api = application(
            publicRouter(functions),
            host: settings.http.host,
            port: settings.http.port,
            flag: "--port",
            tls: tls,
            connections: connections
        ) { await announcement.http($0) }
        let admin = application(
            adminRouter(functions.calls),
            host: settings.http.adminHost,
            port: settings.http.effectiveAdminPort,
            flag: "--admin-port",
            connections: Descriptors.adminConnections
        ) { await announcement.admin($0) }
        let jobs = Housekeeping(
            authority: authority,
            calls: functions.calls,
            uploads: uploads,
            live: live,
            readiness: readiness,
            mail: mail,
            freeBytes: settings.limits.freeBytes,
            delay: delay,
            logger: logger
        )
        _ = await readiness.check(authority.storage)  // Errors are logged.
        // Services shut down in reverse order: ports close before the services behind them.
        var services: [any Service] = [
            mail, jobs, IndexBuilder(authority: authority, delay: delay, logger: logger),
            functions, LiveEnd(hub: live),
            admin, api,
            CallShutdown(
                calls: functions.calls,
                grace: settings.limits.shutdownGrace,
                delay: delay
            ),
            LiveShutdown(hub: live),
        ]
        services.insert(contentsOf: eventDelivery, at: 0)
        services.append(await TLSReload(identity: tls, logger: logger))
        var group = ServiceGroupConfiguration(services: services, logger: logger)
        // Responses in progress then have this long before their connections are closed.
        group.maximumGracefulShutdownDuration = settings.limits.shutdownGrace + Self.lastAnswers
        do {
            try await ServiceGroup(configuration: group).run()
        } catch {
            guard Task.isShuttingDownGracefully, error.isOfCutting else { throw error }
            logger.notice("Connections that did not end within 'limits.shutdownGrace' were closed")
        }
    }

    /// The delivery of events for analytics; empty if the settings name no destination.
    private var eventDelivery: [any Service] {
        let delivery = EventDelivery(
            settings.events,
            authority: authority,
            clock: clock,
            delay: delay,
            metrics: registry,
            logger: logger
        )
        return delivery.map { [$0] } ?? []
    }

    /// The time for writing the last responses after ``ServerSettings/Limits/shutdownGrace``.
    static let lastAnswers = Duration.seconds(2)

    private func application(
        _ router: Router<ServerContext>,
        host: String,
        port: Int,
        flag: String,
        tls: TLSIdentity? = nil,
        connections: Int,
        onRunning: @escaping @Sendable (Int) async -> Void
    ) -> some Service {
        let edge = Edge(
            idleTimeout: settings.limits.idleTimeout,
            writeTimeout: settings.limits.writeTimeout,
            permits: SharedPool(
                limit: connections + EdgeLimits.acceptedAtOnce,
                addressShare: connections - connections / 2
            ),
            proxies: proxies,
            tls: tls,
            unread: Counter(label: "connections_unread", factory: registry)
        )
        let refused = Counter(label: "accept_failures", factory: registry)
        let application = Application(
            responder: RequestTasks(base: router.buildResponder()),
            server: HTTPServerBuilder { EdgeChannel(edge: edge, responder: $0) },
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port),
                serverName: nil,
                backlog: 1_024,
                availableConnectionsDelegate: MaximumAvailableConnections(connections)
            ),
            onServerRunning: { [logger] channel in
                // Before the handler that waits and retries, which does not forward the error.
                let added = channel.eventLoop.submit {
                    let watch = AcceptErrorLogger(logger: logger, failures: refused)
                    try channel.pipeline.syncOperations.addHandler(watch, position: .first)
                }
                try? await added.get()
                await onRunning(channel.localAddress?.port ?? port)
            },
            logger: logger
        )
        return Listener(base: application, port: port, flag: flag)
    }

    /// Returns the runner of functions for one run of the server.
    func functionRunner(_ upstreams: Upstreams) -> FunctionRunner {
        let runner = FunctionRunner(
            settings: settings,
            registered: functions,
            authority: authority,
            upstreams: upstreams,
            clock: clock,
            delay: delay,
            metrics: registry,
            logger: logger
        )
        registry.expose(runner.calls)
        registry.expose(authority.blobSweep)
        return runner
    }

    /// The routes of the public port.
    func publicRouter(_ functions: FunctionRunner) -> Router<ServerContext> {
        let router = Router(context: ServerContext.self, options: .autoGenerateHeadEndpoints)
        let gate = self.gate
        if !settings.http.corsOrigins.isEmpty {
            router.add(middleware: CrossOrigin(origins: settings.http.corsOrigins))
        }
        router.add(middleware: frame(counting: gate.addressLimiter))
        let methods = ServedMethods()
        router.add(middleware: methods)
        healthRoutes.add(to: router)
        DocumentRoutes(gate: gate).add(to: router)
        let routes = router.group("v1")
        let endpoints = Endpoints(
            authority: authority,
            calls: functions.calls,
            onStoreNotification: StoreNotificationLog(logger: logger, reporter: consumption).log
        )
        endpoints.all.add(to: routes, behind: gate)
        functions.openAIRoutes(gate.admission).endpoints.add(to: routes, behind: gate)
        LiveRoutes(hub: live, tickets: LiveTickets(clock: delay), gate: gate).add(to: routes)
        methods.learn(router)
        return router
    }

    /// The routes of the port for metrics and administration.
    ///
    /// - Parameter calls: The runner whose calls end with a deleted account; `nil` if there is
    ///   none.
    /// - Returns: The routes.
    func adminRouter(_ calls: CallRunner? = nil) -> Router<ServerContext> {
        let router = Router(context: ServerContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: frame(counting: nil))
        router.add(middleware: AdminHosts(settings.http))
        let methods = ServedMethods()
        router.add(middleware: methods)
        healthRoutes.add(to: router)
        AdminRoutes(
            authority: authority,
            gate: gate,
            calls: calls,
            admin: AdminGate(tokens: adminTokens, clock: clock, delay: delay),
            metrics: registry
        ).add(to: router)
        methods.learn(router)
        return router
    }

    private var healthRoutes: HealthRoutes {
        HealthRoutes(storage: authority.storage, readiness: readiness) { [authority] in
            authority.indexesBuilding
        }
    }

    private var proxies: TrustedProxies { TrustedProxies(settings.http.trustedProxies) }

    private func frame(counting visitors: RateLimiter<String>?) -> ProblemMiddleware {
        ProblemMiddleware(
            proxies: proxies,
            metrics: RequestMetrics(factory: registry),
            answers: answers,
            requests: requests,
            visitors: visitors,
            accessLog: settings.log.access ? log : nil,
            epoch: authority.storage.epoch,
            clock: clock
        )
    }

    private var gate: Gate {
        Gate(
            admission: Admission(authority),
            bodyBytes: settings.limits.bodyBytes,
            bodies: bodies,
            fileBytes: settings.limits.blobBytes,
            files: files,
            answers: answers,
            uploads: uploads,
            accountLimiter: RateLimiter(
                policy: RatePolicy(limit: settings.limits.requestsPerMinute),
                clock: delay
            ),
            addressLimiter: RateLimiter(
                policy: RatePolicy(
                    name: "address",
                    limit: settings.limits.addressRequestsPerMinute
                ),
                clock: delay
            ),
            addressProcessor: RateLimiter(
                policy: RatePolicy(
                    name: "address-processor",
                    limit: settings.limits.addressProcessorTime.milliseconds,
                    window: .seconds(10)
                ),
                clock: delay
            )
        )
    }
}

extension OpenMetricsRegistry {
    /// Exposes metrics of the storage and the log.
    fileprivate func expose(_ storage: any Storage, _ authority: Authority, _ log: LogQueue?) {
        expose(authority)
        if storage.freeBytes != nil {
            expose(gauge: "data_free_bytes") { storage.freeBytes.map { Double($0) } }
        }
        if let log {
            expose("log_dropped_lines") { UInt64(log.dropped) }
        }
    }
}

extension OpenMetricsRegistry {
    /// Exposes the progress of building indexes, and the reads of lists that accounts share.
    private func expose(_ authority: Authority) {
        expose(gauge: "record_indexes_building") { Double(authority.indexesBuilding) }
        expose("record_index_looks") { authority.indexLooks }
        expose("record_list_hits") { authority.listCacheCounts.hits }
        expose("record_list_stale_hits") { authority.listCacheCounts.stale }
        expose("record_list_misses") { authority.listCacheCounts.misses }
        expose("record_list_shared") { authority.listCacheCounts.shared }
        expose(gauge: "record_list_bytes") { Double(authority.listCacheCounts.bytes) }
    }
}

extension OpenMetricsRegistry {
    /// Exposes the number of running and waiting calls.
    fileprivate func expose(_ calls: CallRunner) {
        expose(gauge: "function_calls_running") { Double(calls.counts.running) }
        expose(gauge: "function_calls_waiting") { Double(calls.counts.waiting) }
    }
}

extension OpenMetricsRegistry {
    /// Exposes the number of removed files.
    fileprivate func expose(_ sweep: BlobSweep) {
        expose("blobs_removed") { sweep.removed.contents }
        expose("blobs_unnamed_removed") { sweep.removed.unnamed }
        expose("uploads_expired") { sweep.removed.uploads }
    }
}

extension SharedPool {
    /// A pool of bytes.
    fileprivate static func bytes(_ limit: Int) -> SharedPool {
        SharedPool(limit: limit, accountShare: limit / EdgeLimits.accountShare)
    }
}

extension Duration {
    /// Whole milliseconds.
    fileprivate var milliseconds: Int { Int(wholeNanoseconds / 1_000_000) }
}

extension Error {
    /// Whether the error only means that services were cancelled at the end of their time.
    fileprivate var isOfCutting: Bool {
        self is CancellationError
            || (self as? ServiceGroupError)?.errorCode == .serviceFinishedUnexpectedly
    }
}

/// Calls a closure once, when both ports are known.
private actor Announcement {
    private var httpPort: Int?
    private var adminPort: Int?
    private let tell: @Sendable (SanguineServer.Ports) async -> Void

    init(_ tell: @escaping @Sendable (SanguineServer.Ports) async -> Void) { self.tell = tell }

    func http(_ port: Int) async {
        httpPort = port
        await announceIfComplete()
    }

    func admin(_ port: Int) async {
        adminPort = port
        await announceIfComplete()
    }

    private func announceIfComplete() async {
        guard let httpPort, let adminPort else { return }
        await tell(SanguineServer.Ports(http: httpPort, admin: adminPort))
    }
}

extension AuthoritySettings {
    /// The authority's part of a server's settings.
    init(_ settings: ServerSettings, registering types: [any Registrable.Type] = []) {
        self.init()
        schema = RecordSchema(collections: settings.collections)
        schema.register(types)
        unit = settings.accounts.unit
        grant = Int64(settings.accounts.grant)
        loginsPerAccount = settings.accounts.logins
        guestsNeedProof = settings.accounts.guestProof == "required"
        recordsEvents = settings.events.areDelivered
        spendingPerDay = settings.spending.perDay.map { Int64($0) }
        guestsPerHour = settings.limits.guestsPerHour
        codesPerHour = settings.limits.codesPerHour
        bytesPerAccount = Int64(settings.limits.accountBytes)
        let days = settings.limits.unnamedFileDays
        unnamedBlobsKept = days > 0 ? .seconds(days * 86_400) : nil
        uploadsKept = .seconds(settings.limits.uploadHours * 3_600)
        defaultTimeZone = settings.accounts.defaultTimeZone
        defaultLanguage = settings.accounts.defaultLanguage
        appName = settings.mail.app
        passwordCost = settings.passwordCost
        quotas = Dictionary(
            settings.quotas.map { ($0.name, $0.rule) }
        ) { first, _ in first }
        issuer = settings.tokens.issuer
        audience = settings.tokens.audience
        accessTokenLife = settings.tokens.accessLifetime
        refreshTokenLife = settings.tokens.refreshLifetime
        rotationGrace = settings.tokens.rotationGrace
        holdLife = settings.holdsDuration
        answersKept = settings.idempotencyKeep
        identityProviders = settings.identity.compactMap(\.provider)
    }
}
