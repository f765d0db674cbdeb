@echo off
REM Runs a server with the configuration ZOOCFG until it is ended: zebu server.

setlocal
call "%~dp0zkEnv.cmd"
if errorlevel 1 exit /b 1
%ZEBU% server "%ZOOCFG%" %*
