/// A user's operation as a value.
///
/// It is shown at once, stored on disk, and sent until the authority or the backend has answered.
///
/// There are two kinds, and each operation of an app conforms to one of them:
///
/// - a ``RecordMutation`` changes records with the same code on the client and on the Sanguine
///   server;
/// - a `RemoteMutation` of the client sends requests to any backend.
public protocol Mutation: Registrable, Codable {
    /// The name of the mutation on disk and on the wire. It is stable, unique among the mutations
    /// of an app, and has 1 to 64 visible ASCII characters, such as `habit.complete`.
    static var name: String { get }

    /// The lane in which it waits.
    ///
    /// Mutations in one lane run in order, those in different lanes concurrently. A lane's name has
    /// 1 to 256 printable characters. Default: `main`.
    var lane: String { get }
}

extension Mutation {
    /// `main`, in which mutations run in order.
    public var lane: String { "main" }
}

/// A type that an app registers once, so that its stored data can be decoded after a restart.
///
/// Conform to ``SyncedRecord`` or ``Mutation`` instead.
public protocol Registrable: Sendable {}
