public import Foundation
public import Logging
public import SanguineModel

extension SanguineClient {
    /// What a client is created with.
    ///
    /// Everything has a default that suits an app.
    ///
    /// ```swift
    /// let client = try SanguineClient(.init(server: url))
    /// ```
    public struct Configuration: Sendable {
        /// The address of the Sanguine server.
        ///
        /// Default: none, for an app with a backend of its own.
        public var server: URL?
        /// Where the paths of queries start, if not at ``server``.
        public var baseURL: URL?
        /// Header fields for every request to ``baseURL``, asked for each time: a key, say.
        ///
        /// They go to no other host and are never stored. A token that expires belongs into
        /// ``authorize``.
        public var baseHeaders: @Sendable () -> [String: String] = { [:] }
        /// Adds what proves who asks to each request to ``baseURL``, before it goes out.
        ///
        /// It goes to no other host, and nothing of it is stored; without a ``baseURL`` the client
        /// is not made (``SanguineError/notConfigured(_:)``). Called on any thread, for each
        /// request and again after ``refresh``; it may ask for a token first, within the time that
        /// the read or the mutation has.
        ///
        /// If it throws, nothing is sent. What may pass, as an error of the network does, is tried
        /// again. Any other error is a 401 with that error as its ``SanguineError/underlying``, and
        /// refuses no operation. Default: nothing.
        public var authorize: (@Sendable (inout TransportRequest) async throws -> Void)?
        /// Renews what ``authorize`` adds, after ``baseURL`` has answered 401.
        ///
        /// Called once for any number of requests, which then go out once more. It has a minute
        /// (``ClientLimits/refreshTimeout``), is cancelled at a sign-out, and must not ask through
        /// this client, whose requests may be waiting for it. If it throws, the requests that wait
        /// for it fail as if ``authorize`` had thrown, and the next 401 calls it again. Operations
        /// in the outbox are then tried again after a while, and none is refused. Default: none;
        /// a 401 is an error, and stops the outbox until ``Outbox/resume()``.
        public var refresh: (@Sendable () async throws -> Void)?
        /// What stands between the client and the backends of the app's own: it logs, or signs.
        ///
        /// The first is the outermost.
        ///
        /// They see each request of a query or a mutation as it goes out, what ``authorize`` has
        /// added included, and each answer whatever its status; and nothing of the Sanguine server.
        /// Default: none.
        public var interceptors: [Interceptor] = []
        /// Reads the JSON of ``baseURL`` and of any other backend of the app's own.
        ///
        /// Default: keys as they are, and dates of RFC 3339 (ISO 8601), with or without decimals of
        /// a second. It reads nothing of the Sanguine server, and nothing from disk. A request may
        /// have another one; copies of a configuration share this one.
        public var decoder: JSONDecoder = WireCoding.makeDecoder()
        /// Writes JSON for ``baseURL`` and any other backend of the app's own.
        ///
        /// Default: keys as they are, in their order, and dates of RFC 3339 in UTC with
        /// milliseconds. It writes nothing to disk. A request may have another one.
        public var encoder: JSONEncoder = WireCoding.makeEncoder()
        /// Reads the body of an answer whose status is not 200 to 299, of any backend but the
        /// Sanguine server.
        ///
        /// Called with the whole answer, on any thread, under no lock. `nil` leaves it to what the
        /// client makes of any answer: a problem (RFC 9457), or the status alone. Default: nothing.
        public var errorBody: (@Sendable (TransportResponse) -> ErrorBody?)?
        /// Decides whether a success is an answer of the app's own backend, or came from something
        /// in between: the login page of a network, say.
        ///
        /// Called for each response of status 200 to 399, on any thread, under no lock. What is no
        /// answer is ``TransportError/intercepted(_:)``, or, from 300 on, a problem: a read keeps
        /// the value that it has and is tried again, and a mutation waits and is sent again.
        ///
        /// A backend that really answers with web pages says so in the `Accept` of the request, or
        /// here, as does one that answers a write with a redirect to what it has made:
        ///
        /// ```swift
        /// configuration.isAnswer = { request, response in
        ///     response.status == 303 || response.isAnswer(to: request)
        /// }
        /// ```
        ///
        /// Default: ``TransportResponse/isAnswer(to:)``. A Sanguine server has that rule always.
        public var isAnswer: @Sendable (TransportRequest, TransportResponse) -> Bool = {
            request,
            response in response.isAnswer(to: request)
        }
        /// The folder for what survives the process.
        ///
        /// Default: `Sanguine/<app>` in the user's Application Support folder. One folder serves
        /// one client at a time: of two, the one that stores last overwrites the other's session
        /// and balance.
        public var folder: URL?
        /// Whether nothing is to survive the process; ``folder`` does not matter then.
        public var isInMemory = false
        /// The version of the app, of any form.
        ///
        /// When it changes, the values on disk count as stale once, see
        /// <doc:Releasing-A-New-Version>. Default: the bundle's `CFBundleVersion`; `nil` where
        /// there is none, and then they never do.
        public var appVersion: String? = {
            Bundle.main.object(forInfoDictionaryKey: "CFBundleVersion") as? String
        }()
        /// What carries requests.
        ///
        /// Default: a ``URLSessionTransport``, closed with the client.
        public var transport: (any HTTPTransport)?
        /// The time of day.
        public var clock: any WallClock = SystemWallClock()
        /// Whether reads and requests for a session are sent again after a failure.
        ///
        /// Default: true. Set it to false in a program that shows what it knows and ends: a server
        /// that is not there is noticed at the first attempt.
        public var retries = true
        /// What measures waits and time-outs.
        public var delay: any Clock<Duration> = ContinuousClock()
        /// Where chance comes from: ids, jitter.
        public var random = RandomSource.system
        /// Where the client logs.
        ///
        /// It logs nothing personal and no token.
        public var logger = Logger(label: "sanguine.client")
        /// Who is told what the client does: the app's own telemetry.
        ///
        /// Default: nobody.
        public var observer: (any ClientObserver)?
        /// How much the values in memory may take, in bytes of their JSON.
        ///
        /// Default: 32 MB.
        public var memoryBytes = ClientLimits.memoryBytes
        /// How many reads may be under way to one host, 1 to 16; others wait by their priority.
        ///
        /// Default: 6. Of these at most two, and never all, are prefetches.
        public var readsPerHost = ClientLimits.readsPerHost
        /// The device's id for the server, 16 to 128 characters.
        ///
        /// Default: made once and kept.
        public var deviceId: String?
        /// The zone of the user's days, an IANA name.
        ///
        /// What ``SanguineClient/setTimeZone(_:)`` sets counts more. Default: the device's.
        public var timeZone = TimeZone.current.identifier
        /// The user's language, a BCP 47 tag.
        ///
        /// Default: the device's.
        public var language = Locale.current.identifier(.bcp47)

        /// Whether the app is in the foreground.
        ///
        /// Default: the platform's notifications; elsewhere always.
        public var lifecycle: any Lifecycle = PlatformLifecycle.shared
        /// Whether there is a network.
        ///
        /// Default: the platform's monitor; elsewhere always.
        public var connectivity: any Connectivity = PlatformConnectivity.shared
        /// How long the app must be in the background for its return to be a
        /// ``RefetchEvents/foreground``.
        ///
        /// Default: 5 minutes.
        public var foregroundAfter: Duration = EventLimits.foregroundAfter
        /// How often the balance is fetched while somebody observes it.
        ///
        /// Default: never by itself.
        public var balancePolling: Duration?
        /// The app's records and record mutations, beside those of `RecordSchema.standard`.
        package var schema = RecordSchema.standard
        /// The app's mutations for any backend.
        package var mutations: [any RequestMutation.Type] = []
        /// How often the feed of records is pulled in the foreground, once records are used.
        ///
        /// Default: every minute. `nil`: only on events, such as the app's return.
        public var recordPolling: Duration? = RecordLimits.pollInterval
        /// Is called after records or operations were written, when what was written is durable: to
        /// reload a widget, say.
        ///
        /// On any thread, under no lock. Default: nothing.
        public var durableWrites: (@Sendable () -> Void)?
        /// The app's queries, for ``SanguineClient/matrix()``.
        ///
        /// Default: none; the matrix then shows them when they were used, as undeclared.
        public var queries: [QueryDeclaration] = []

        /// What writes behind the readers' backs, by its label.
        ///
        /// The simulation has one whose order follows from a seed.
        package var queue: @Sendable (_ label: String) -> any SerialQueue = {
            BackgroundQueue($0)
        }
        /// What the simulation is to find.
        package var plantedFault: PlantedFault?
        /// Why every read and write is refused: there is no client, and this one says so.
        package var refusal: SanguineError?

        /// Creates a configuration with the defaults of the platform.
        public init(server: URL? = nil) { self.server = server }

        /// A configuration that leaves nothing on disk: for previews and tests.
        public static func inMemory(server: URL? = nil) -> Configuration {
            var configuration = Configuration(server: server)
            configuration.isInMemory = true
            return configuration
        }

        /// Makes the app's own types known: its records, and everything that is performed.
        ///
        /// ```swift
        /// configuration.register(Habit.self, CompleteHabit.self, Like.self)
        /// ```
        ///
        /// What is performed is on disk before it is sent, perhaps by a later process, which knows
        /// it by its `name`. So each type is registered at every launch, before the client is made.
        /// A type may be registered more than once; a name that two types have is an error when the
        /// client is made: ``SanguineError/invalidDeclaration(_:)``.
        public mutating func register(_ types: any Registrable.Type...) { register(types) }

        /// Makes the app's own types known, from a list that both ends have, say.
        ///
        /// See ``register(_:)-(Registrable....)``.
        public mutating func register(_ types: [any Registrable.Type]) {
            for type in types {
                if let mutation = type as? any RequestMutation.Type {
                    mutations.append(mutation)
                } else {
                    schema.register(type)
                }
            }
        }

        /// What both ends know, as a server's program declares it too.
        ///
        /// It takes the place of all collections and record mutations that were registered before.
        public mutating func register(_ schema: RecordSchema) { self.schema = schema }

        /// Refuses names that two types have, and what would have no effect.
        func check() throws(SanguineError) {
            if let fault = (schema.faults + duplicateMutations).first {
                throw .invalidDeclaration(fault)
            }
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

        /// The schedule, or one attempt where nothing is to be sent again.
        func schedule(_ schedule: RetrySchedule) -> RetrySchedule { retries ? schedule : .never }

        /// Where the store lies; `nil` for none.
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
