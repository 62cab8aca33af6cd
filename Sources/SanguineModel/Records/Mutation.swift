/// Something that the user did, as a value: it is shown at once, kept on disk, and sent until the
/// authority or the backend has answered.
///
/// There are two kinds, and an operation of the app conforms to one of them:
///
/// - a ``RecordMutation`` changes records, by the same code on the client and on the Sanguine
///   server;
/// - a `RequestMutation` of the client sends requests, to any backend.
public protocol Mutation: Registrable, Codable {
    /// The name under which it is kept and travels: unique among the mutations of an app, and
    /// stable; 1 to 64 visible ASCII characters, such as `habit.complete`.
    static var name: String { get }

    /// The lane in which it waits.
    ///
    /// Mutations of one lane are done in their order, those of others at the same time. 1 to 256
    /// printable characters. Default: `main`.
    var lane: String { get }
}

extension Mutation {
    /// `main`: all in their order.
    public var lane: String { "main" }
}

/// A type that an app registers once, so that what is on disk is known again after a restart: a
/// ``SyncedRecord``, or a ``Mutation``.
///
/// Conform to one of those.
public protocol Registrable: Sendable {}
