#if !canImport(SwiftUI)

/// SwiftUI's `DynamicProperty`, which is not isolated to an actor.
public protocol DynamicProperty {
    /// Called before the view's body.
    mutating func update()
}

extension DynamicProperty {
    /// Does nothing.
    public mutating func update() {}
}

/// A property that a host connects to its storage when its view is created again.
protocol HostedProperty {
    var box: AnyObject { get }

    func host(in former: AnyObject?, _ environment: EnvironmentValues)
}

/// SwiftUI's `State`: its value belongs to the view, however often that is created again.
@propertyWrapper
public struct State<Value>: DynamicProperty {
    final class Box {
        var value: Value
        /// The box of the view when it was first created.
        var first: Box?

        init(_ value: Value) { self.value = value }
    }

    let content: Box

    /// Creates a property with its initial value.
    public init(wrappedValue value: Value) { content = Box(value) }

    /// Creates a property with its initial value.
    public init(initialValue value: Value) { content = Box(value) }

    /// The value.
    public var wrappedValue: Value {
        get { (content.first ?? content).value }
        nonmutating set { (content.first ?? content).value = newValue }
    }
}

// As in SwiftUI. Here everything happens on the main actor.
extension State: @unchecked Sendable where Value: Sendable {}

extension State: HostedProperty {
    var box: AnyObject { content }

    func host(in former: AnyObject?, _ environment: EnvironmentValues) {
        content.first = former as? Box
    }
}

/// SwiftUI's `Environment`.
@propertyWrapper
public struct Environment<Value>: DynamicProperty {
    final class Box {
        var values = EnvironmentValues()
    }

    private let keyPath: KeyPath<EnvironmentValues, Value>
    private let content = Box()

    /// Creates a property with the environment's value at a key path.
    public init(_ keyPath: KeyPath<EnvironmentValues, Value>) { self.keyPath = keyPath }

    /// The value.
    public var wrappedValue: Value { content.values[keyPath: keyPath] }
}

// As in SwiftUI. Here everything happens on the main actor.
extension Environment: @unchecked Sendable where Value: Sendable {}

extension Environment: HostedProperty {
    var box: AnyObject { content }

    func host(in former: AnyObject?, _ environment: EnvironmentValues) {
        content.values = environment
    }
}

/// SwiftUI's `EnvironmentKey`.
public protocol EnvironmentKey {
    /// The type of the value.
    associatedtype Value

    /// The value if none was set.
    static var defaultValue: Self.Value { get }
}

/// SwiftUI's `EnvironmentValues`.
public struct EnvironmentValues {
    private var values: [ObjectIdentifier: Any] = [:]

    /// The default values.
    public init() {}

    /// The value for that key.
    public subscript<Key: EnvironmentKey>(key: Key.Type) -> Key.Value {
        get { values[ObjectIdentifier(key)] as? Key.Value ?? Key.defaultValue }
        set { values[ObjectIdentifier(key)] = newValue }
    }
}
#endif
