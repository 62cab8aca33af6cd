public import Logging
public import SanguineModel

/// A backend for swift-log that writes one JSON object per line.
///
/// ```swift
/// LoggingSystem.bootstrap { JSONLogHandler(label: $0, level: .info) }
/// Logger(label: "sanguine").info("Listening", metadata: ["port": "8080"])
/// // {"time":"2026-11-21T19:18:39.250Z","level":"info","message":"Listening","label":"sanguine",…}
/// ```
///
/// Metadata is flattened: `["user": ["id": "7"], "tags": ["a"]]` becomes
/// `"user.id":"7","tags.0":"a"`, sorted by name. A name that the line already contains gets the
/// prefix `metadata.`. A line is at most ``lineBytes`` long: members that do not fit are omitted,
/// and `"truncated":true` is added. A separate thread writes the lines, so flush the ``LogQueue``
/// before the process ends.
public struct JSONLogHandler: LogHandler {
    /// The maximum length of a line in bytes: 8 KiB.
    public static let lineBytes = 8_192

    /// The maximum length of a message as JSON: half a line, which leaves room for metadata.
    static let messageBytes = lineBytes / 2

    /// The maximum depth of metadata to flatten; deeper values are written as their description.
    static let metadataDepth = 8

    private static let ownNames: Set<String> = [
        "time", "level", "message", "label", "source", "error", "truncated",
    ]

    /// The metadata of every line.
    public var metadata: Logger.Metadata = [:]
    /// Provides additional metadata for every line.
    public var metadataProvider: Logger.MetadataProvider?
    /// The lowest level that is written.
    public var logLevel: Logger.Level

    private let label: String
    private let queue: LogQueue
    private let clock: any WallClock

    /// Creates a handler.
    ///
    /// - Parameters:
    ///   - label: The logger's label.
    ///   - level: The lowest level that is written. Default: `info`.
    ///   - queue: Writes the lines in the background, so that logging never blocks. Default: the
    ///     queue for standard error.
    ///   - clock: The time of the lines.
    public init(
        label: String,
        level: Logger.Level = .info,
        queue: LogQueue = .standardError,
        clock: any WallClock = SystemWallClock()
    ) {
        self.label = label
        logLevel = level
        self.queue = queue
        self.clock = clock
    }

    /// Accesses a name in the metadata of every line.
    public subscript(metadataKey name: String) -> Logger.Metadata.Value? {
        get { metadata[name] }
        set { metadata[name] = newValue }
    }

    /// Appends the event to the queue as a line.
    public func log(event: LogEvent) {
        var line = JSONLine(limit: Self.lineBytes)
        line.add("time", clock.now().description)
        line.add("level", event.level.rawValue)
        line.add("message", event.message.description, longest: Self.messageBytes)
        line.add("label", label, longest: 256)
        line.add("source", event.source, longest: 256)
        if let error = event.error {
            line.add("error", String(describing: error), longest: Self.messageBytes / 4)
        }
        var all = metadata
        if let provided = metadataProvider?.get() { all.merge(provided) { _, new in new } }
        if let own = event.metadata { all.merge(own) { _, new in new } }
        Self.add(all, to: &line)
        queue.append(line.finish())
    }

    private static func add(_ metadata: Logger.Metadata, to line: inout JSONLine) {
        if metadata.isEmpty { return }
        var flat: [(name: String, value: String)] = []
        flatten(.dictionary(metadata), under: "", depth: 0, into: &flat)
        var taken = ownNames
        for (name, value) in flat.sorted(by: { $0.name < $1.name }) {
            var unique = name
            while !taken.insert(unique).inserted { unique = "metadata." + unique }
            line.add(unique, value)
        }
    }

    private static func flatten(
        _ value: Logger.MetadataValue,
        under name: String,
        depth: Int,
        into flat: inout [(name: String, value: String)]
    ) {
        func nested(_ part: String) -> String { name.isEmpty ? part : name + "." + part }
        switch value {
        case .dictionary(let members) where depth < metadataDepth:
            for (part, member) in members {
                flatten(member, under: nested(part), depth: depth + 1, into: &flat)
            }
        case .array(let elements) where depth < metadataDepth:
            for (index, element) in elements.enumerated() {
                flatten(element, under: nested(String(index)), depth: depth + 1, into: &flat)
            }
        default:
            flat.append((name, value.description))
        }
    }
}
