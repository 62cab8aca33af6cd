public import Foundation
public import Logging
public import SanguineModel

extension SanguineClient {
    /// The configuration of a client.
    ///
    /// Every member has a default that suits an app.
    ///
    /// ```swift
    /// let client = try SanguineClient(.init(server: url))
    /// ```
    public struct Configuration: Sendable {
        /// The address of the Sanguine server.
        ///
        /// Default: none, for an app with its own backend.
        public var server: URL?
        /// The base address of queries' paths, if it is not ``server``.
        public var baseURL: URL?
        /// Returns header fields for every request to ``baseURL``, such as a key; called each time.
        ///
        /// They are sent to no other host and never stored. For a token that expires, use
        /// ``authorize``.
        public var baseHeaders: @Sendable () -> [String: String] = { [:] }
        /// Adds credentials to each request to ``baseURL`` before it is sent.
        ///
        /// They are sent to no other host and never stored. A client without a ``baseURL`` cannot
        /// be created with it (``SanguineError/notConfigured(_:)``). The closure is called on any
        /// thread, for each request and again after ``refresh``. It may fetch a token first, within
        /// the time limit of the read or the mutation.
        ///
        /// If it throws, nothing is sent. Temporary errors, such as those of the network, are
        /// retried. Any other error becomes a 401 with that error as its
        /// ``SanguineError/underlying``, and refuses no operation. Default: none.
        public var authorize: (@Sendable (inout TransportRequest) async throws -> Void)?
        /// Renews the credentials of ``authorize`` after ``baseURL`` has answered 401.
        ///
        /// Called once for any number of requests, which are then sent once more. It has a minute
        /// (``ClientLimits/refreshTimeout``), is cancelled at a sign-out, and must not use this
        /// client, whose requests may be waiting for it. If it throws, the waiting requests fail as
        /// if ``authorize`` had thrown, and the next 401 calls it again. Operations in the outbox
        /// are then retried after a while, and none is refused. Default: none; then a 401 is an
        /// error, and stops the outbox until ``Outbox/resume()``.
        public var refresh: (@Sendable () async throws -> Void)?
        /// Intercept requests to the app's own backends, for example to log or sign them; the first
        /// is the outermost.
        ///
        /// They receive each request of a query or a mutation as it is sent, including what
        /// ``authorize`` has added, and each response, regardless of its status, but nothing of the
        /// Sanguine server. Default: none.
        public var interceptors: [Interceptor] = []
        /// Decodes the JSON of ``baseURL`` and of the app's other backends.
        ///
        /// Default: unchanged keys, and dates of RFC 3339 (ISO 8601), with or without decimals of a
        /// second. It is not used for the Sanguine server or for stored values. A request may have
        /// its own decoder; copies of a configuration share this one.
        public var decoder: JSONDecoder = WireCoding.makeDecoder()
        /// Encodes JSON for ``baseURL`` and the app's other backends.
        ///
        /// Default: unchanged, sorted keys, and dates of RFC 3339 in UTC with milliseconds. It is
        /// not used for stored values. A request may have its own encoder.
        public var encoder: JSONEncoder = WireCoding.makeEncoder()
        /// Reads the body of a response whose status is not 200 to 299, from any backend but the
        /// Sanguine server.
        ///
        /// Called with the whole response, on any thread, with no lock held. If it returns `nil`,
        /// the client reads a problem (RFC 9457) from the response, or makes one from its status.
        /// Default: none.
        public var errorBody: (@Sendable (TransportResponse) -> ErrorBody?)?
        /// Decides whether a success is a response of the app's own backend, or comes from an
        /// intermediary, such as the login page of a network.
        ///
        /// Called for each response with a status from 200 to 399, on any thread, with no lock
        /// held. Any other response becomes ``TransportError/intercepted(_:)`` or, with a status of
        /// 300 or more, a problem: a read keeps its value and is retried, and a mutation waits and
        /// is sent again.
        ///
        /// A backend that does respond with web pages needs the `Accept` of the request, or this
        /// closure, as does one that answers a write with a redirect to the result:
        ///
        /// ```swift
        /// configuration.isAnswer = { request, response in
        ///     response.status == 303 || response.isAnswer(to: request)
        /// }
        /// ```
        ///
        /// Default: ``TransportResponse/isAnswer(to:)``. For a Sanguine server, that rule always
        /// applies.
        public var isAnswer: @Sendable (TransportRequest, TransportResponse) -> Bool = {
            request,
            response in response.isAnswer(to: request)
        }
        /// The folder of persistent data.
        ///
        /// Default: `Sanguine/<app>` in the user's Application Support folder. One folder serves
        /// one client at a time: of two clients, the last to write overwrites the other's session
        /// and balance.
        public var folder: URL?
        /// Whether no data is persistent; ``folder`` is ignored then.
        public var isInMemory = false
        /// The version of the app, in any form.
        ///
        /// When it changes, the values on disk count as stale once, see
        /// <doc:Releasing-A-New-Version>. Default: the bundle's `CFBundleVersion`; if there is
        /// none, `nil`, and then they never do.
        public var appVersion: String? = {
            Bundle.main.object(forInfoDictionaryKey: "CFBundleVersion") as? String
        }()
        /// The transport of requests.
        ///
        /// Default: a ``URLSessionTransport``, closed with the client.
        public var transport: (any HTTPTransport)?
        /// The time of day.
        public var clock: any WallClock = SystemWallClock()
        /// Whether reads and requests for a session are retried after a failure.
        ///
        /// Default: true. Set it to false in a program that prints its data and exits, so that an
        /// unreachable server is reported after the first attempt.
        public var retries = true
        /// The clock for waits and timeouts.
        public var delay: any Clock<Duration> = ContinuousClock()
        /// The source of randomness for ids and jitter.
        public var random = RandomSource.system
        /// The logger of the client.
        ///
        /// Nothing personal and no token is logged.
        public var logger = Logger(label: "sanguine.client")
        /// The app's own telemetry, which is notified of the client's actions.
        ///
        /// Default: none.
        public var observer: (any ClientObserver)?
        /// The maximum size in bytes of the values in memory, counted as JSON.
        ///
        /// Default: 32 MB.
        public var memoryBytes = ClientLimits.memoryBytes
        /// The limits of images in memory and on disk, and the rules for signed URLs.
        public var images = ImageSettings()
        /// The number of concurrent reads of one host, 1 to 16; others wait by their priority.
        ///
        /// Default: 6. At most two of these, and never all, are prefetches.
        public var readsPerHost = ClientLimits.readsPerHost
        /// The device's id on the server, 16 to 128 characters.
        ///
        /// Default: created once and stored.
        public var deviceId: String?
        /// Returns the proof that this device has the app from a store, when a guest is created.
        ///
        /// A server that verifies it gives the same Apple account the same guest after a reinstall.
        /// On Apple's platforms, set it to `AppTransactionProof.appStore`; StoreKit may then ask
        /// the user of a development build to sign in. It is called on any thread and may take
        /// 5 seconds. A guest is created without a proof if there is none, or if the server refuses
        /// it. Default: none.
        public var appTransaction: (@Sendable () async -> AppTransactionProof?)?
        /// Proves to the server that a genuine app on a genuine device creates a guest.
        ///
        /// On Apple's platforms, set it to `AppAttestor()`. Nothing is attested if the server does
        /// not ask for it. If the server requires attestations and this device has none, no guest
        /// is created: calls of the server throw a problem with `attestation_failed`, and
        /// operations wait in the outbox. Default: none.
        public var deviceAttestor: (any DeviceAttestor)?
        /// The zone of the user's days, an IANA name.
        ///
        /// Setting it ends ``followsDeviceTimeZone``. ``SanguineClient/setTimeZone(_:)`` overrides
        /// it. Default: the device's.
        public var timeZone = TimeZone.current.identifier {
            didSet { followsDeviceTimeZone = false }
        }
        /// Whether the user's days, and the account, follow the device's zone.
        ///
        /// The zone is sent when it differs from the account's: when the client is created, when
        /// the app returns to the foreground, and when the system changes it. A zone that the app
        /// sets for a user, see ``UserAccount/update(_:)`` and
        /// ``SanguineClient/setTimeZone(_:)``, takes precedence on this device. Default: true,
        /// unless ``timeZone`` was set.
        public var followsDeviceTimeZone = true
        /// The user's language, a BCP 47 tag.
        ///
        /// Default: the device's.
        public var language = Locale.current.identifier(.bcp47)
        /// Whether the account follows the device's language, as ``followsDeviceTimeZone`` does the
        /// zone.
        ///
        /// For an app without a language setting of its own. Default: false.
        public var followsDeviceLanguage = false
        /// The device's zone and language.
        var deviceLocale = DeviceLocale.current
        /// Whether the app is in the foreground.
        ///
        /// Default: the platform's notifications; elsewhere always.
        public var lifecycle: any Lifecycle = PlatformLifecycle.shared
        /// Whether there is a network.
        ///
        /// Default: the platform's monitor; elsewhere always.
        public var connectivity: any Connectivity = PlatformConnectivity.shared
        /// The time in the background after which the app's return is a
        /// ``RefetchEvents/foreground``.
        ///
        /// Default: 5 minutes.
        public var foregroundAfter: Duration = EventLimits.foregroundAfter
        /// The interval at which the balance is fetched while it is observed.
        ///
        /// Default: `nil`, which means that it is not polled.
        public var balancePolling: Duration?
        /// The app's records and record mutations, in addition to those of `RecordSchema.standard`.
        package var schema = RecordSchema.standard
        /// The app's mutations for any backend.
        package var mutations: [any RemoteMutation.Type] = []
        /// The interval at which the feed of records is pulled in the foreground, once records are
        /// used.
        ///
        /// Default: every minute. `nil`: only on events, such as the app's return.
        public var recordPolling: Duration? = RecordLimits.pollInterval
        /// Called when records or operations were written and are durable, for example to reload a
        /// widget.
        ///
        /// Called on any thread, with no lock held. Default: none.
        public var durableWrites: (@Sendable () -> Void)?
        /// The app's queries, lists and ranges, for ``SanguineClient/matrix()``.
        ///
        /// Two declarations of one name that store it in different ways make the creation of the
        /// client fail (``SanguineError/invalidDeclaration(_:)``); see ``QueryDeclaration``.
        /// Default: none; the matrix then lists queries as undeclared when they were used.
        public var queries: [QueryDeclaration] = []
        /// The functions that the app calls, for ``SanguineClient/matrix()``.
        ///
        /// Default: none; the matrix then lists functions as undeclared when they were called.
        public var functions: [any FunctionCall.Type] = []

        /// Creates the queue for background writes, by its label.
        ///
        /// The simulation has a queue whose order follows from a seed.
        package var queue: @Sendable (_ label: String) -> any SerialQueue = {
            BackgroundQueue($0)
        }
        /// The fault that the simulation must detect.
        package var plantedFault: PlantedFault?
        /// The reason why every read and write is refused, in a client that only reports it.
        package var refusal: SanguineError?

        /// Creates a configuration with the defaults of the platform.
        public init(server: URL? = nil) { self.server = server }

        /// Returns a configuration without persistent data, for previews and tests.
        public static func inMemory(server: URL? = nil) -> Configuration {
            var configuration = Configuration(server: server)
            configuration.isInMemory = true
            return configuration
        }

        /// Registers the app's own types: its records, and everything that it performs.
        ///
        /// ```swift
        /// configuration.register(Habit.self, CompleteHabit.self, Like.self)
        /// ```
        ///
        /// Operations are stored before they are sent, perhaps by a later process, which finds
        /// their type by its `name`. So register each type at every launch, before the client is
        /// created. A type may be registered more than once; two types with the same name make the
        /// creation of the client fail: ``SanguineError/invalidDeclaration(_:)``.
        public mutating func register(_ types: any Registrable.Type...) { register(types) }

        /// Registers the app's own types from a list, such as one that client and server share.
        ///
        /// See ``register(_:)-(Registrable....)``.
        public mutating func register(_ types: [any Registrable.Type]) {
            for type in types {
                if let mutation = type as? any RemoteMutation.Type {
                    mutations.append(mutation)
                } else {
                    schema.register(type)
                }
            }
        }

        /// Registers a schema that client and server share, as a server's program declares it too.
        ///
        /// It replaces all collections and record mutations that were registered before.
        public mutating func register(_ schema: RecordSchema) { self.schema = schema }

        /// Refuses duplicate names, and settings that would have no effect.
        func check() throws(SanguineError) {
            if let fault = (schema.faults + duplicateMutations).first {
                throw .invalidDeclaration(fault)
            }
            if let conflict = QueryDeclaration.conflict(in: declaredQueries) {
                throw .invalidDeclaration(conflict)
            }
            try images.check()
            guard authorize != nil || refresh != nil else { return }
            guard let baseURL, baseURL.origin != server?.origin else {
                throw .notConfigured("a 'baseURL' other than 'server' for 'authorize' or 'refresh'")
            }
        }

        private var duplicateMutations: [String] {
            var types: [String: any Mutation.Type] = [:]
            return mutations.compactMap { type in
                let name = type.name
                let other = types[name] ?? schema.mutation(name)
                types[name] = type
                guard let other, other != type else { return nil }
                return RecordSchema.duplicate("mutation", name, other, type)
            }
        }

        /// Returns the schedule, or a single attempt if retries are disabled.
        func schedule(_ schedule: RetrySchedule) -> RetrySchedule { retries ? schedule : .never }

        /// The device's zone if the account follows it, otherwise the configured one.
        var currentTimeZone: String {
            followsDeviceTimeZone ? deviceLocale.timeZone.value : timeZone
        }

        /// The folder of the store; `nil` for none.
        var storeFolder: URL? {
            if isInMemory { return nil }
            if let folder { return folder }
            let app = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
            let support = FileManager.default
                .urls(for: .applicationSupportDirectory, in: .userDomainMask).first
            return (support ?? URL(filePath: NSHomeDirectory()))
                .appending(path: "Sanguine").appending(path: app)
        }
    }
}
