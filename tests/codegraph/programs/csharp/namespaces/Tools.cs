namespace Acme.Util
{
    public static class Tools
    {
        public static void Cut() {}
    }
}
